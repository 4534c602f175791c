"""The load benchmark: the cost of a request in our generator, wrk, h2load, ab, httperf, oha and k6.

The server is the null responder, so only the generators differ. The benchmark compares the generator's CPU time per
request, including its start and end, as the kernel accounts it to the process.
"""
