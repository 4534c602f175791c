"""Load runs: confidence intervals, thresholds, capacity search, comparison, load from several machines.

The engine generates the load and measures; this package works beside it or afterwards. `result` holds a run's figures,
`confidence` computes their intervals, `metrics` is the table of available metrics. `threshold`, `search`, `comparison`
and `fleet` build on these; `outputs` and `folder` write, `live` and `terminal` display.
"""
