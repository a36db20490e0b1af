"""Many fits, one answer: cross-validation, comparison, selection."""
