"""The server benchmark: our architectures, other people's servers and the null responder, side by side in one run.

The figure is the server's CPU time per request, since on a shared machine it is steadier than requests per second;
both are kept. `python -m benchmarks.server` runs it, docs/server-benchmark.md is what it writes.
"""
