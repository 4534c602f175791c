"""Displays of the probe: its live view, its totals, and flame graphs."""
