"""Cache misses where the processor does not count them: a server under valgrind's cachegrind.

The same is asked for N times and 2N times; the difference is what N took, without start-up. `program` runs the server,
with time held so that it does the same each time; `lock_step` asks a web server, `viewers` a streaming server, whose
time passes in steps (`rtsp` is what they say, `receiver` what they get); `counts` reads what cachegrind wrote;
`measurement` makes the runs and their differences.
"""

from sojourn.cache_misses.counts import Counts, Geometry
from sojourn.cache_misses.measurement import EVENTS, Measurement, Request, measure

__all__ = ["EVENTS", "Counts", "Geometry", "Measurement", "Request", "measure"]
