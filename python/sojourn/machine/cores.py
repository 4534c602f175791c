"""Which core runs the server and which the generator.

Server and generator share one machine, so each gets a core of its own; where there is only one core, nothing is
pinned and every result says so, because the generator's work then counts against the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """The cores of one measurement; `None` where there is none to give."""

    server: int | None
    generator: int | None

    @property
    def pinned(self) -> bool:
        """True if server and generator are kept apart."""
        return self.server is not None and self.generator is not None


def plan() -> Cores:
    """The first two cores this process may run on: the server's, the generator's."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[1]) if len(allowed) > 1 else Cores(None, None)


def pinned_command(core: int | None, command: list[str]) -> list[str]:
    """The command under `taskset`, so that whatever it starts stays on the core."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]


@contextmanager
def keep_off_server_core(cores: Cores) -> Iterator[None]:
    """Keeps this process, which only watches, off the server's core: a few milliseconds there would show as a stall."""
    with _on(os.sched_getaffinity(0) - ({cores.server} if cores.pinned else set())):
        yield


@contextmanager
def also_on_server_core(cores: Cores) -> Iterator[None]:
    """Lets what this process starts pin itself to the server's core, which it keeps off otherwise."""
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
