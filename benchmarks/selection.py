"""Names that are chosen on a benchmark's command line: comma-separated patterns, with * as a wildcard."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from sojourn.failure import CouldNotRun


def selected(patterns: str | None, names: Sequence[str], kind: str) -> set[str]:
    """The names that match one of the patterns; all without patterns.

    Raises:
        CouldNotRun: a pattern matches none of them.
    """
    if patterns is None:
        return set(names)
    wanted = patterns.split(",")
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CouldNotRun(f"no {kind} is named {pattern}", f"one or more of {','.join(names)}, * is a wildcard")
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)}
