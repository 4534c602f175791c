"""Numbers, quantities and documents as text. This package imports nothing from the others."""
