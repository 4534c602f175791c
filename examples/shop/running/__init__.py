"""Starts and stops the shop and its users, with the standard library alone."""
