"""The proxy benchmark: the cost of a request in our caching proxy, nginx, Squid, Varnish and Traffic Server.

`benchmarks/proxy/bench` measures it and writes docs/proxy-benchmark.md. Parts shared with the benchmark of static
serving are in `benchmarks.server`.
"""
