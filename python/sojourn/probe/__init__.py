"""The probe samples all counters that the machine offers for a set of processes.

`recording` holds the samples as they arrive from the engine, `totals` computes usage over a span, `live` shows it on a
terminal, `files` writes and reads it, `merging` joins it to a run by time. The table of counters is in
`crates/measure/src/counters/`.
"""
