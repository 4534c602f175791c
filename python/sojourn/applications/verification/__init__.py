"""Verifies predictions: makes changes to an application and measures their effect.

`planned` parses the changes, `processor_quota` limits the cores of running processes, `execution` makes a change and
measures the knee again. Each prediction is written to the run's folder before its measurement begins.
"""
