"""The benchmark of dynamic requests: their cost in the server and gateway, beside other servers (bench-dynamic)."""
