"""Assigns cores to the server and the generator.

Server and generator share one machine, so each gets its own core. With a single core nothing is pinned and every result
notes it, because the generator's work then counts against the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn.machine.samples import siblings


@dataclass(frozen=True)
class Cores:
    """The cores of a measurement; `None` where none is available."""

    server: int | None
    generator: int | None

    @property
    def pinned(self) -> bool:
        """Returns true if server and generator have separate cores."""
        return self.server is not None and self.generator is not None


def plan(root: Path = Path("/")) -> Cores:
    """Assigns two of the cores available to this process: the first to the server, the next to the generator.

    Hardware threads of one physical core slow each other down, so the generator's is of another where there is one.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    beside = siblings(first, root)
    apart = [core for core in others if core not in beside]
    return Cores(first, (apart or others)[0]) if others else Cores(None, None)


def pinned_command(core: int | None, command: list[str]) -> list[str]:
    """Wraps a command in `taskset`, so that everything it starts stays on the core."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]


@contextmanager
def keep_off_server_core(cores: Cores) -> Iterator[None]:
    """Moves this observing process off the server's core: a few milliseconds there would show as a stall."""
    with _on(os.sched_getaffinity(0) - ({cores.server} if cores.pinned else set())):
        yield


@contextmanager
def also_on_server_core(cores: Cores) -> Iterator[None]:
    """Lets children of this process pin themselves to the server's core, which it otherwise avoids."""
    with _on(os.sched_getaffinity(0) | ({cores.server} if cores.server is not None else set())):
        yield


@contextmanager
def _on(wanted: set[int]) -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
