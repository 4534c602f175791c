"""The probe benchmark: what being observed costs a server, and whether the CPU time that is seen is the right one.

A server under steady load is measured with the probe and without it, in turn, for each group of sources. Beside that,
`perf stat` counts the same processes over the same requests.
"""
