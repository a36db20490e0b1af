"""What is each intention after? Policies and rewards per intention."""
