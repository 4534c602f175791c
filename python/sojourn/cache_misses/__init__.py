"""Cache misses per request where the processor does not count them: a server under valgrind's cachegrind.

The same requests are made N times and 2N times, one after the other on one connection; the difference is what N
requests took, without start-up. `program` runs the server, with time held still so that it does the same each time;
`lock_step` asks; `counts` reads what cachegrind wrote; `measurement` makes the runs and their differences.
"""

from sojourn.cache_misses.counts import Counts, Geometry
from sojourn.cache_misses.measurement import PER_REQUEST, Measurement, Request, measure

__all__ = ["PER_REQUEST", "Counts", "Geometry", "Measurement", "Request", "measure"]
