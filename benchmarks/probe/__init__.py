"""The probe benchmark: what the probe costs a server, and whether it counts CPU time correctly.

A server under steady load is measured with and without the probe, in turn, for each group of sources. In addition,
`perf stat` counts the same processes over the same requests.
"""
