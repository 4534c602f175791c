"""Verifies predictions: stores the predicted effect of a change, makes the change, and measures.

`changes` is the table of changes; `predictions` predicts them with the fitted model; `execution` makes a change and
measures; `comparison` compares the two. A prediction is written to the run's folder before its measurement begins, so
that it cannot be adjusted.
"""
