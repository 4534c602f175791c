"""Simulates cache misses on machines without hardware counters: runs a server under valgrind's cachegrind.

The server answers N and 2N requests; the difference is the cost of N without start-up. `program` runs the server with
a simulated clock, so that it behaves the same each time; `lock_step` sends requests to a web server, `viewers` plays
films from a streaming server, whose clock advances in steps (`rtsp` is the protocol, `receiver` receives the packets);
`counts` reads cachegrind's output; `measurement` makes the runs and subtracts.
"""

from sojourn.cache_misses.counts import Counts, Geometry
from sojourn.cache_misses.measurement import EVENTS, Measurement, Request, measure

__all__ = ["EVENTS", "Counts", "Geometry", "Measurement", "Request", "measure"]
