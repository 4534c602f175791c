"""Selection on a benchmark's command line: comma-separated patterns of names, with * as a wildcard."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from sojourn.failure import CouldNotRun


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Returns the name."""


N = TypeVar("N", bound=Named)


def chosen(patterns: str | None, everything: Sequence[N], kind: str) -> list[N]:
    """Returns those whose names match one of the patterns; all without patterns.

    Raises:
        CouldNotRun: a pattern matches none of them.
    """
    if patterns is None:
        return list(everything)
    wanted = patterns.split(",")
    names = [each.name for each in everything]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CouldNotRun(f"no {kind} is named {pattern}", f"one or more of {','.join(names)}, * is a wildcard")
    return [each for each in everything if any(fnmatchcase(each.name, pattern) for pattern in wanted)]
