"""Simulates every policy with every cache size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from sojourn import __version__, _native
from sojourn.cluster.tasks import InProcess, Tasks, in_order

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Default cache sizes, as shares of the total size of all objects."""


@dataclass(frozen=True)
class Point:
    """One policy with one cache size."""

    policy: str
    cache_bytes: int
    misses: int
    miss_ratio: float
    missed_bytes: int
    byte_miss_ratio: float


@dataclass(frozen=True)
class Simulation:
    """The simulated requests, options and results."""

    source: str
    requests: int
    objects: int
    requested_bytes: int
    working_set_bytes: int
    admission: str
    object_bytes_max: int | None
    points: list[Point]
    version: str = __version__

    def policies(self) -> list[str]:
        return list(dict.fromkeys(point.policy for point in self.points))

    def sizes(self) -> list[int]:
        """The cache sizes, in their order."""
        return list(dict.fromkeys(point.cache_bytes for point in self.points))

    def of(self, policy: str) -> list[Point]:
        return [point for point in self.points if point.policy == policy]

    def as_json(self) -> dict[str, object]:
        """The result for `--format json` and the folder."""
        return asdict(self)


def default_sizes(requests: _native.CacheTrace) -> list[int]:
    """Default cache sizes: shares of the working set, each at least a byte."""
    return sorted({max(1, round(share * requests.working_set_bytes)) for share in SHARES})


def simulate(
    source: str,
    requests: _native.CacheTrace,
    policies: Sequence[str],
    sizes: Sequence[int],
    *,
    admission: str,
    object_bytes_max: int | None,
    progress: Callable[[float, float | None], None],
    tasks: Tasks | None = None,
) -> Simulation:
    """Simulates every policy with every size, each as a task; in this process unless `tasks` says where."""
    requested = int(requests.sizes().sum())
    tasks = tasks or InProcess()
    shared = tasks.shared(requests)
    pairs = [(policy, size) for policy in policies for size in sizes]
    outcomes = tasks.each(_misses, ((shared, *pair, admission, object_bytes_max) for pair in pairs))
    points = [
        Point(policy, size, misses, misses / len(requests), missed, missed / max(1, requested))
        for (policy, size), (misses, missed) in zip(
            pairs, in_order(outcomes, lambda done: progress(done, len(pairs))), strict=True
        )
    ]
    return Simulation(
        source=source,
        requests=len(requests),
        objects=requests.object_count,
        requested_bytes=requested,
        working_set_bytes=requests.working_set_bytes,
        admission=admission,
        object_bytes_max=object_bytes_max,
        points=points,
    )


def _misses(
    requests: _native.CacheTrace, policy: str, size: int, admission: str, object_bytes_max: int | None
) -> tuple[int, int]:
    """The misses and the missed bytes of one policy with one size."""
    return requests.misses(policy, size, admission, object_bytes_max)
