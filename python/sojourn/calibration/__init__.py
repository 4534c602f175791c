"""Fits model parameters to measurements; each estimate has an interval, and each fit an error on held-out points.

One file per estimator, independent of the source of its points: `service_demand` (demand against document size),
`utilisation_law` (demand per class from utilisations), `response_times` (demand and r from every request's times),
`scalability` (throughput against clients). `tables` reads points from a file, `kinds` turns them into a `Fit` with a
system file. Run folders are fitted again by `sojourn.assessment.refit`, on the same estimators.
"""
