"""Builds the site of a trace: a folder with a file of the right size per document.

Beside the trace's documents it has a few of fixed sizes, on which a server's demand is measured.
The names are the trace's own (`/000/000123-4096`): no name of a log reaches the file system. The bytes are a
fixed pseudo-random block, so that nothing on the way can compress them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from sojourn import _native
from sojourn.failure import CouldNotRun

BLOCK_BYTES = 1 << 20
FILE_SYSTEM_RESERVE_FRACTION = 0.05
_BLOCK = Random(1999).randbytes(BLOCK_BYTES)

FIXED_SIZES_BYTES = (500, 5_000, 15_000, 50_000, 150_000, 500_000, 1_500_000)

Document = tuple[str, int]
"""A site path with its leading slash, and its size in bytes."""


def fixed_size_path(size_bytes: int) -> str:
    """Where the document of a fixed size lives."""
    return f"/demand/{size_bytes}"


def documents_of(trace: _native.Trace) -> list[Document]:
    """All documents of a trace's site."""
    named = [(path, size) for _, size, path, _ in trace.documents()]
    return named + [(fixed_size_path(size), size) for size in FIXED_SIZES_BYTES]


def build(
    folder: Path,
    documents: Iterable[Document],
    content_limit_bytes: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Writes the files that are not there yet; returns the site's bytes.

    Raises:
        CouldNotRun: the site would pass the limit or the disk's free space, or a file cannot be written.
    """
    documents = list(documents)
    total_bytes = sum(size for _, size in documents)
    _check_room(folder, documents, total_bytes, content_limit_bytes)
    try:
        for done, (path, size) in enumerate(documents):
            _write(folder / path.lstrip("/"), size)
            progress(done + 1, len(documents))
    except OSError as error:
        raise CouldNotRun(
            f"cannot write the site: {error.filename or folder}: {error.strerror}",
            "give a --work-dir on a disk with room and permission to write",
        ) from error
    return total_bytes


def _check_room(folder: Path, documents: list[Document], total_bytes: int, limit_bytes: int) -> None:
    if total_bytes > limit_bytes:
        raise CouldNotRun(
            f"the site needs {total_bytes / 1e6:,.1f} MB in {len(documents):,} files, "
            f"more than --content-limit {limit_bytes / 1e6:,.1f} MB",
            f"raise it: --content-limit {total_bytes / 1e9 + 0.1:.1f}GB",
        )
    folder.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(folder)
    room = disk.free - FILE_SYSTEM_RESERVE_FRACTION * disk.total
    # A file takes whole blocks; 4 KiB is the usual one.
    needed = sum(-(-size // 4096) * 4096 for _, size in documents)
    if needed > room:
        raise CouldNotRun(
            f"the disk of {folder} is too small: the site needs {needed / 1e6:,.1f} MB, "
            f"{max(room, 0) / 1e6:,.1f} MB may be used (5 % of the disk stays free)",
            "give a --work-dir on another disk",
        )


def _write(path: Path, size: int) -> None:
    if path.is_file() and path.stat().st_size == size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start in range(0, size, BLOCK_BYTES):
            file.write(_BLOCK[: min(BLOCK_BYTES, size - start)])
