"""The memory characterisation by extended copy transfer: bandwidth over working set and stride, and latency.

`grid` chooses the measurements, `characterisation` lets the engine make them, `charts` and `surface` draw them,
`report` and `terminal` show them. Kurmann and Stricker (ISCA workshop on scalable shared memory, 1998) describe the
method; the loops are in `crates/measure/src/memory/`.
"""
