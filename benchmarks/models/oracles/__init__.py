"""Programs that know the truth about queues and share nothing with the code that they check.

No program here imports Sojourn's models, and each answers by another method than the solver it is held against:
global balance of a Markov chain written out state by state instead of recursions or matrix-analytic structure,
enumeration instead of mean value analysis, one rounded lattice instead of bounds from below and above.
"""
