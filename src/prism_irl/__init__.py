"""Recover what an agent wants, and when it changes its mind, from states and actions alone."""
