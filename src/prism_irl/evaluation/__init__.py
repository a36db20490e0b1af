"""Likelihoods, label metrics, cross-validation."""
