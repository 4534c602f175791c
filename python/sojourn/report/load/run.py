"""The data of a load run's report, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.loading import folder
from sojourn.loading.result import LoadResult
from sojourn.machine.environment import Environment


@dataclass(frozen=True)
class LoadRun:
    result: LoadResult
    environment: Environment

    @classmethod
    def read(cls, path: Path) -> LoadRun:
        return cls(folder.read(path), folder.environment(path))
