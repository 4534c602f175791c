"""Runs all studies within a budget and writes one page of their findings: the acceptance test of the whole."""
