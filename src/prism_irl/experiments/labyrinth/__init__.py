"""The labyrinth (paper §5.2)."""
