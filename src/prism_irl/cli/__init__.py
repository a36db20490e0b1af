"""The command `prism`: one file per verb, and what the verbs share."""
