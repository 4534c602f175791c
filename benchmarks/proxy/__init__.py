"""The proxy benchmark: what a request costs our caching proxy beside nginx, Squid, Varnish and Traffic Server.

`benchmarks/proxy/bench` measures and writes docs/proxy-benchmark.md. What it shares with the benchmark of static
serving, it has from there.
"""
