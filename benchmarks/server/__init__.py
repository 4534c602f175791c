"""The server benchmark: our architectures, other servers and the null responder, side by side in one run.

It compares the server's CPU time per request, which is steadier on a shared machine than requests per second; it
records both. `python -m benchmarks.server` runs it and writes docs/server-benchmark.md.
"""
