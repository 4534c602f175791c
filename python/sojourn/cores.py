"""Which core runs the server and which the generator.

Server and generator share one machine, so each gets a core of its own; where there is only one core, nothing is
pinned and every result says so, because the generator's work then counts against the server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """The cores of one measurement; `None` where there is none to give."""

    server: int | None
    generator: int | None

    @property
    def pinned(self) -> bool:
        """Whether server and generator are kept apart."""
        return self.server is not None and self.generator is not None


def plan() -> Cores:
    """The first two cores this process may run on: the server's, the generator's."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[1]) if len(allowed) > 1 else Cores(None, None)


def pinned_command(core: int | None, command: list[str]) -> list[str]:
    """The command under `taskset`, so that whatever it starts stays on the core."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]
