"""The commands of the tutorial, over many simulated mice."""
