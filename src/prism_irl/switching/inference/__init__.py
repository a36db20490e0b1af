"""Beliefs over intentions along a trajectory: one reference, and its accelerations."""
