"""Many fits at once on one GPU."""
