"""Simulators with known intentions, and some that are known to have none."""
