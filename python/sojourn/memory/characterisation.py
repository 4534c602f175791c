"""The memory characterisation: measured by the engine, or read from a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sojourn import engine
from sojourn.engine.results import Cache, MemoryRecord
from sojourn.memory.grid import Grid


class Characterisation(MemoryRecord):
    """The results of all measurements."""

    def data_caches(self) -> list[Cache]:
        """The data caches, nearest first; empty if the machine does not report them."""
        return [each for each in self.caches if each.kind != "Instruction"] if isinstance(self.caches, list) else []

    def conditions(self) -> list[tuple[int, str]]:
        """Each measured pair of core count and huge-page setting."""
        found = [(each.cores, each.huge_pages) for each in self.points]
        found += [(each.cores, each.huge_pages) for each in self.latencies]
        return list(dict.fromkeys(found))

    def working_sets(self) -> list[int]:
        """The measured working sets in bytes, ascending."""
        found = {each.working_set_bytes for each in self.points}
        return sorted(found | {each.working_set_bytes for each in self.latencies})


@dataclass(frozen=True)
class Request:
    """The measurements besides the grid."""

    kernels: Sequence[str]
    cores: Sequence[int]
    first_core: int | None
    huge_pages: Sequence[str]
    latency: bool
    measure: str
    seed: int


def characterise(grid: Grid, request: Request, progress: Callable[[float], None]) -> Characterisation:
    """Runs the measurement; if interrupted, returns the results so far, marked incomplete."""
    arguments = ["memory"]
    lists: dict[str, Sequence[str | int]] = {
        "--kernels": request.kernels,
        "--working-sets": grid.working_sets,
        "--strides": grid.strides,
        "--cores": request.cores,
        "--huge-pages": request.huge_pages,
        "--repetitions": [grid.repetitions],
        "--measure": [request.measure],
        "--seed": [request.seed],
    }
    for name, values in lists.items():
        arguments += [name, ",".join(str(value) for value in values)]
    if request.first_core is not None:
        arguments += ["--core", str(request.first_core)]
    if request.latency:
        arguments.append("--latency")
    return engine.run(arguments, Characterisation, lambda line: progress(line.progress))
