"""What the report of a load run is drawn from, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.loading import folder
from sojourn.loading.result import LoadResult


@dataclass(frozen=True)
class LoadRun:
    result: LoadResult
    environment: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> LoadRun:
        return cls(folder.read(path), folder.environment(path))

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.result.record.get("steps", ()))

    @property
    def thresholds(self) -> list[dict[str, Any]]:
        """The thresholds' verdicts from the run itself; they are not computed again."""
        return list(self.result.record.get("thresholds", ()))

    @property
    def options(self) -> list[str]:
        """The engine's command-line options."""
        return list(self.result.record.get("options", ()))
