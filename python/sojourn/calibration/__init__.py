"""From measurements to the parameters of a model, each estimate with its interval and its error on held-out points.

An estimator per file, none of which knows where its points came from: `service_demand` (demand against document size),
`utilisation_law` (demand per class from utilisations), `response_times` (demand and r from every request's times),
`scalability` (throughput against clients). `tables` reads points from a file, `kinds` turns them into a `Fit` with
a system file. Run folders are fitted again by `sojourn.assessment.refit`, on the same estimators.
"""
