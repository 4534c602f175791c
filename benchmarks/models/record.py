"""The runs of a benchmark as JSON lines, written as each ends, and what they say per case and competitor."""

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
"""An error that the interval over the seeds misses by more than this is the program's and not chance: of many intervals
some miss by a little, and a discipline that is not that of the case is far off."""


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
        """Station visits per CPU second of each run; jobs where there is one station."""
        return [run.visits / run.cpu_seconds for run in self.runs]

    @property
    def rate(self) -> float:
        """Their median."""
        return median(self.rates)

    @property
    def jobs(self) -> float:
        """Jobs per run."""
        return self.runs[0].jobs

    @property
    def mean(self) -> float:
        """The mean response time over the seeds, seconds."""
        return fmean(run.mean_response_time_seconds for run in self.runs)

    @property
    def half_width(self) -> float:
        """Of the 95 % interval of that mean, by Student's t over the seeds; zero for solvers without chance.

        Infinite for one seed, which says nothing of the others.
        """
        if self.jobs == 0:
            return 0.0
        count = len(self.runs)
        if count < 2:
            return math.inf
        spread = stdev(run.mean_response_time_seconds for run in self.runs)
        return float(t.ppf(0.975, count - 1)) * spread / math.sqrt(count)

    def is_wrong(self, exact: float) -> bool:
        """Whether chance does not explain the distance to the exact mean."""
        return abs(self.mean - exact) > self.half_width + WRONG_BEYOND * exact


class Record:
    """The file of a benchmark; its first line says what it was."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self.about = about
        self.runs: list[Run] = []
        self.path.write_text(json.dumps(about) + "\n")

    def add(self, run: Run) -> None:
        """Keeps a run, in the file before anything else happens."""
        self.runs.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")

    def cell(self, case: str, competitor: str) -> Cell | None:
        """All runs of a competitor on a case."""
        found = tuple(run for run in self.runs if (run.case, run.competitor) == (case, competitor))
        return Cell(found) if found else None
