"""The memory characterisation by extended copy transfer: bandwidth over working set and stride, and latency.

`grid` chooses what is measured, `characterisation` has the engine measure it, `charts` and `surface` draw it,
`report` and `terminal` show it. Kurmann and Stricker (ISCA workshop on scalable shared memory, 1998) describe the
method; the loops are in `crates/measure/src/memory/`.
"""
