"""Robot demonstrations: readers of episode formats, and frames as tokens."""
