"""The engine, `sojourn-engine`: running it, its description, and the types of its results.

`process` runs it to its end, and `prepared` starts it when it is told to. `describe.json` and `results.py` are
generated from `sojourn-engine describe --json` by `scripts/generate`; a test compares them with the installed engine.
"""

from sojourn.engine.prepared import Prepared
from sojourn.engine.process import Progress, Stream, lines, path, replace_process, run, stand_back

__all__ = ["Prepared", "Progress", "Stream", "lines", "path", "replace_process", "run", "stand_back"]
