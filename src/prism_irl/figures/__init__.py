"""Figures of the paper: each function takes an Axes and returns it."""
