"""What the report of a load run is drawn from, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.loading import folder
from sojourn.loading.result import LoadResult


@dataclass(frozen=True)
class LoadRun:
    """One load run, read."""

    result: LoadResult
    environment: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> LoadRun:
        """Reads a run's folder."""
        return cls(folder.read(path), folder.environment(path))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The engine's steps."""
        return list(self.result.record.get("steps", ()))

    @property
    def thresholds(self) -> list[dict[str, Any]]:
        """The verdicts, as they were given."""
        return list(self.result.record.get("thresholds", ()))

    @property
    def options(self) -> list[str]:
        """What the engine was told."""
        return list(self.result.record.get("options", ()))
