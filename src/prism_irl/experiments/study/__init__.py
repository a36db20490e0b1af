"""Calibration of comparisons between animals and of intervals, on simulated studies whose truth is known."""
