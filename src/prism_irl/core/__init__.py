"""What every method shares: statistics that add up, and the two protocols that expectation–maximisation joins."""
