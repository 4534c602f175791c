"""Numbers, quantities and documents as text: the ground floor of the package, which imports nothing above it."""
