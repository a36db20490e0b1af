"""Continuous worlds: intentions without tokens, with known truth and on real recordings."""
