"""Independent programs for the true values of queues, which share no code with the models that they check.

No program here imports Sojourn's models, and each uses another method than the solver that it checks:
global balance of a Markov chain written out state by state instead of recursions or matrix-analytic structure,
enumeration instead of mean value analysis, one rounded lattice instead of bounds from below and above.
"""

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""The compared percentiles, by their keys in results."""
