"""The runs of a benchmark as JSON lines, each written when it ends, and their figures per case and competitor."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t

FILE = "runs.jsonl"
WRONG_BEYOND = 0.1
"""If the interval over the seeds misses the exact value by more than this, the program is wrong, not unlucky: of many
intervals some miss by a little, and a wrong discipline misses by far."""


@dataclass(frozen=True)
class Run:
    """One run of a competitor on a case."""

    case: str
    competitor: str
    repetition: int
    jobs: float
    visits: float
    cpu_seconds: float
    mean_response_time_seconds: float


@dataclass(frozen=True)
class Cell:
    """All runs of a competitor on a case."""

    runs: tuple[Run, ...]

    @property
    def rates(self) -> list[float]:
        """Returns the station visits per CPU second of each run; jobs if there is one station."""
        return [run.visits / run.cpu_seconds for run in self.runs]

    @property
    def rate(self) -> float:
        """Returns the median of the rates."""
        return median(self.rates)

    @property
    def jobs(self) -> float:
        """Returns the jobs per run."""
        return self.runs[0].jobs

    @property
    def mean(self) -> float:
        """Returns the mean response time over the seeds, in seconds."""
        return fmean(run.mean_response_time_seconds for run in self.runs)

    @property
    def half_width(self) -> float:
        """Returns the half-width of that mean's 95 % interval, by Student's t over the seeds.

        It is zero for deterministic solvers, and infinite for a single seed.
        """
        if self.jobs == 0:
            return 0.0
        count = len(self.runs)
        if count < 2:
            return math.inf
        spread = stdev(run.mean_response_time_seconds for run in self.runs)
        return float(t.ppf(0.975, count - 1)) * spread / math.sqrt(count)

    def is_wrong(self, exact: float) -> bool:
        """Returns true if chance does not explain the distance to the exact mean."""
        return abs(self.mean - exact) > self.half_width + WRONG_BEYOND * exact


class Record:
    """The file of a benchmark; its first line describes the benchmark."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self.about = about
        self.runs: list[Run] = []
        self.path.write_text(json.dumps(about) + "\n")

    def add(self, run: Run) -> None:
        """Adds a run, and writes it to the file at once."""
        self.runs.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")

    def cell(self, case: str, competitor: str) -> Cell | None:
        """All runs of a competitor on a case."""
        found = tuple(run for run in self.runs if (run.case, run.competitor) == (case, competitor))
        return Cell(found) if found else None
