"""The engine, `sojourn-engine`: running it (`process`), its description (`description`), and the types of its results.

`describe.json` and `results.py` are generated from `sojourn-engine describe --json` by `scripts/generate`; a test
compares them with the installed engine.
"""

from sojourn.engine.process import Progress, Stream, lines, path, replace_process, run, stand_back

__all__ = ["Progress", "Stream", "lines", "path", "replace_process", "run", "stand_back"]
