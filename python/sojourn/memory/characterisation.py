"""A characterisation as a value, measured by the engine or read from a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from sojourn import engine
from sojourn.memory.grid import Grid


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Spread(_Frozen):
    """The repetitions of one figure."""

    median: float
    min: float
    max: float
    repetitions: int


class Point(_Frozen):
    """Bandwidth at a place of the grid: the sum over the cores at work, each copied byte counted once."""

    kernel: str
    working_set_bytes: int
    stride_words: int
    cores: int
    huge_pages: str
    bytes_per_second: Spread


class Latency(_Frozen):
    """How long a load takes that has to wait for the one before."""

    working_set_bytes: int
    cores: int
    huge_pages: str
    seconds_per_load: Spread


class Cache(_Frozen):
    """A cache that the measuring core sees."""

    level: int
    kind: str
    size_bytes: int
    line_bytes: int
    shared_by: str


class Backing(_Frozen):
    """The memory that was walked; how much of it huge pages held, per core, or why that is not known."""

    huge_pages: str
    cores: list[int]
    bytes: int
    huge_page_bytes: list[int | dict[str, str]]


class Characterisation(_Frozen):
    """All that was measured."""

    version: str
    machine: dict[str, Any]
    seed: int
    complete: bool
    disturbed: int
    caches: list[Cache] | dict[str, str]
    backing: list[Backing]
    points: list[Point]
    latencies: list[Latency]

    def data_caches(self) -> list[Cache]:
        """The caches that data go through, nearest first; none where the machine does not tell."""
        return [each for each in self.caches if each.kind != "Instruction"] if isinstance(self.caches, list) else []

    def conditions(self) -> list[tuple[int, str]]:
        """Cores and huge pages, each pair that was measured."""
        found = [(each.cores, each.huge_pages) for each in self.points]
        found += [(each.cores, each.huge_pages) for each in self.latencies]
        return list(dict.fromkeys(found))

    def working_sets(self) -> list[int]:
        """The working sets that were measured, in bytes, ascending."""
        found = {each.working_set_bytes for each in self.points}
        return sorted(found | {each.working_set_bytes for each in self.latencies})


@dataclass(frozen=True)
class Request:
    """What to measure, beyond the grid."""

    kernels: Sequence[str]
    cores: Sequence[int]
    first_core: int | None
    huge_pages: Sequence[str]
    latency: bool
    measure: str
    seed: int


def characterise(grid: Grid, request: Request, progress: Callable[[float], None]) -> Characterisation:
    """Has the engine measure; interrupted, it answers with what it had, marked incomplete."""
    arguments = ["memory"]
    lists: dict[str, Sequence[Any]] = {
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
    result = engine.run(arguments, lambda line: progress(line["progress"]))
    return Characterisation.model_validate(result)
