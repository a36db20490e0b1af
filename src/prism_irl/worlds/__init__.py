"""Simulators with known intentions."""
