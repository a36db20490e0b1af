"""Loaders for real data, which is never part of the package."""
