"""The probe: its live view, its totals, and flame graphs."""
