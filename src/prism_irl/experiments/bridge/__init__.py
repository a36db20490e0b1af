"""Robot manipulation (paper §5.3)."""
