"""Simulates a system with its replications on a cluster.

The replications form groups that share their records. All groups advance to the same number of jobs, then this process
looks at their states and decides how far they go on, as in one process: the figures are the same, whatever the number
of workers. A worker keeps its groups between looks. A group that comes to another worker, because its own was lost,
begins anew there and gives the same state.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from sojourn import _native
from sojourn.cluster.tasks import Tasks
from sojourn.queueing import Simulation, System
from sojourn.queueing.simulation import JOBS_MIN, Progress, Target

GROUPS_MAX = 64
"""The most groups that a worker keeps; each is a simulation with its records."""


@dataclass(frozen=True)
class Replicated:
    """A simulation; all of it decides its figures."""

    system: str
    half_width: float
    jobs_max: int
    seed: int
    targets: tuple[str, ...]
    replications: int
    jobs_min: int = JOBS_MIN

    def group(self, index: int) -> _native.ReplicationGroup:
        """Starts one of the groups."""
        return _native.ReplicationGroup(
            self.system,
            index,
            self.half_width,
            self.jobs_max,
            self.seed,
            jobs_min=self.jobs_min,
            targets=list(self.targets),
            replications=self.replications,
        )


def simulate(
    system: System,
    tasks: Tasks,
    *,
    half_width: float,
    jobs_max: int,
    seed: int,
    targets: Sequence[Target],
    replications: int,
    progress: Progress,
) -> Simulation:
    """Simulates as `queueing.simulate` does, with each group of replications as a task.

    Raises:
        ValueError: if a station is unstable or a parameter is out of its domain.
        ClusterLost: the cluster is gone.
    """
    asked = Replicated(system.text, half_width, jobs_max, seed, tuple(targets), replications)
    groups = _native.replication_groups(replications)
    seen: tuple[float | None, float | None] = (None, None)

    def advance(looks: list[int]) -> list[bytes]:
        states: dict[int, bytes] = {}
        before = looks[-2] if len(looks) > 1 else 0
        words = ((asked, index, looks) for index in range(groups))
        with closing(tasks.each(_advanced, words, same_worker=True)) as outcomes:
            for outcome in outcomes:
                states[outcome.place] = outcome.result()
                jobs = before + (looks[-1] - before) * len(states) / groups
                progress(round(jobs * replications), jobs_max, *seen)
        return [states[index] for index in range(groups)]

    def looked(jobs: int, most: int, estimate: float | None, relative: float | None) -> None:
        nonlocal seen
        seen = (estimate, relative)
        progress(jobs, most, estimate, relative)

    result: Simulation = _native.simulate_system_in_groups(  # type: ignore[assignment]
        system.text,
        advance,
        half_width,
        jobs_max,
        seed,
        jobs_min=asked.jobs_min,
        targets=list(targets),
        replications=replications,
        progress=looked,
    )
    return result


# -- on a worker


@dataclass
class _Running:
    """A group that runs here, and the looks that it has seen."""

    group: _native.ReplicationGroup
    looks: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_running: OrderedDict[tuple[Replicated, int], _Running] = OrderedDict()
_lock = threading.Lock()


def _advanced(asked: Replicated, index: int, looks: list[int]) -> bytes:
    """The state of a group at the last of the looks."""
    running = _found(asked, index)
    with running.lock:
        if running.looks != looks[: len(running.looks)]:
            # It has run further, for a look whose states were lost.
            running.group, running.looks = asked.group(index), []
        state = running.group.advance(looks)
        running.looks = list(looks)
        return state


def _found(asked: Replicated, index: int) -> _Running:
    with _lock:
        key = (asked, index)
        if key not in _running:
            _running[key] = _Running(asked.group(index))
            while len(_running) > GROUPS_MAX:
                _running.popitem(last=False)
        _running.move_to_end(key)
        return _running[key]
