"""The load benchmark: what a request costs our generator beside wrk, h2load, ab, httperf, oha and k6.

The server is the null responder, so that nothing but the generator differs. What is compared is the generator's CPU
time per request, start and end included, as the kernel accounts it to the process.
"""
