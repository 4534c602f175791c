"""What processes use while they serve: samples of every counter the machine offers, shown live and kept.

`recording` holds the samples as they arrive from the engine, `totals` says what was used over a span, `live` shows
it on a terminal, `files` writes and reads it, `merging` joins it to a run by time. The counters are one table, in
`crates/measure/src/counters/`.
"""
