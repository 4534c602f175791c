"""Memory of stored responses: by how much a proxy's processes and its files in memory grow with many small ones."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server import idle
from sojourn.failure import CouldNotRun
from sojourn.systems import Running

SETTLE_SECONDS = 1.0
SAMPLE = 200
"""The number of responses that are requested once more, with the origin stopped."""
ANSWER_TIMEOUT_SECONDS = 10.0
KEPT_FRACTION_MIN = 0.95
_BLOCK_BYTES = 512


class Forgotten(CouldNotRun):
    """The proxy has not stored enough of the responses."""


@dataclass(frozen=True)
class Stored:
    """Memory before and after, and the number of responses in between."""

    objects: int
    process_bytes_before: int
    process_bytes_after: int
    """Proportional set size (PSS): pages that processes share count once."""
    file_bytes_before: int
    file_bytes_after: int
    """The size of a cache that consists of files in memory."""
    kept_fraction: float
    """The fraction of a sample that was stored."""

    @property
    def bytes_per_object(self) -> float:
        """Returns the growth of processes and files per stored response."""
        grown = self.process_bytes_after - self.process_bytes_before + self.file_bytes_after - self.file_bytes_before
        return grown / self.objects


def memory(proxy: Running, work: Path) -> tuple[int, int]:
    """Returns the bytes of its processes and of its files."""
    time.sleep(SETTLE_SECONDS)
    files = sum(path.lstat().st_blocks * _BLOCK_BYTES for path in work.rglob("*") if not path.is_symlink())
    return idle.memory(proxy.pids)[1], files


def kept_fraction(proxy: Running, paths: list[str]) -> float:
    """Returns the share of `paths` that is still answered without the origin.

    Raises:
        Forgotten: the share is too small.
    """
    sample = paths[:: max(1, len(paths) // SAMPLE)]
    kept = sum(_is_answered(proxy.url + path) for path in sample)
    if kept < KEPT_FRACTION_MIN * len(sample):
        raise Forgotten(f"of {len(sample)} answers that it was to keep it has {kept}")
    return kept / len(sample)


def _is_answered(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_SECONDS) as response:
            response.read()
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
