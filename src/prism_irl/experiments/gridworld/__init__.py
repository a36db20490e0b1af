"""The frustration gridworld (paper §5.1)."""
