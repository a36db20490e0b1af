"""When does the agent switch intention? Priors over intentions given the history."""
