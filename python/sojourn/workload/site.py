"""Builds the site of a trace: a folder with a file of the right size per document.

In addition to the trace's documents it has some of fixed sizes, for measuring a server's demand. File names are
generated (`/000/000123-4096`): no name from a log reaches the file system. The content is a fixed pseudo-random block,
so that nothing can compress it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from sojourn import _native
from sojourn.failure import CouldNotRun

BLOCK_BYTES = 1 << 20
FILE_SYSTEM_RESERVE_FRACTION = 0.05
OURS = ".sojourn-work"
"""The file that says that a working folder may be removed."""
_BLOCK = Random(1999).randbytes(BLOCK_BYTES)

FIXED_SIZES_BYTES = (500, 5_000, 15_000, 50_000, 150_000, 500_000, 1_500_000)

Document = tuple[str, int]
"""A site path with its leading slash, and its size in bytes."""


def fixed_size_path(size_bytes: int) -> str:
    """The path of the document with a fixed size."""
    return f"/demand/{size_bytes}"


def documents_of(trace: _native.Trace | _native.StoredTrace) -> list[Document]:
    """All documents of a trace's site."""
    named = [(path, size) for _, size, path, _ in trace.documents()]
    return named + [(fixed_size_path(size), size) for size in FIXED_SIZES_BYTES]


def build(
    folder: Path,
    documents: Iterable[Document],
    content_limit_bytes: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Writes missing files in order; returns how many.

    Raises:
        CouldNotRun: the site would pass the limit or the disk's free space, or a file cannot be written.
    """
    documents = list(documents)
    _check_limit(documents, content_limit_bytes)
    missing = [(path, size) for path, size in documents if not _is_there(folder / path.lstrip("/"), size)]
    check_room(folder, missing)
    try:
        for done, (path, size) in enumerate(missing):
            _write(folder / path.lstrip("/"), size)
            progress(done + 1, len(missing))
    except OSError as error:
        raise CouldNotRun(
            f"cannot write the site: {error.filename or folder}: {error.strerror}",
            "give a folder on a disk with room and permission to write",
        ) from error
    return len(missing)


def _is_there(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _check_limit(documents: list[Document], limit_bytes: int) -> None:
    total_bytes = sum(size for _, size in documents)
    if total_bytes > limit_bytes:
        raise CouldNotRun(
            f"the site needs {total_bytes / 1e6:,.1f} MB in {len(documents):,} files, "
            f"more than --content-limit {limit_bytes / 1e6:,.1f} MB",
            f"raise it: --content-limit {total_bytes / 1e9 + 0.1:.1f}GB",
        )


def check_room(folder: Path, documents: Sequence[Document]) -> None:
    """Refuses documents that do not fit on the folder's disk, not counting existing files."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(folder)
    room = disk.free - FILE_SYSTEM_RESERVE_FRACTION * disk.total
    # A file occupies whole blocks, usually of 4 KiB.
    needed = sum(-(-size // 4096) * 4096 for _, size in documents)
    if needed > room:
        raise CouldNotRun(
            f"the disk of {folder} is too small: the site needs {needed / 1e6:,.1f} MB, "
            f"{max(room, 0) / 1e6:,.1f} MB may be used (5 % of the disk stays free)",
            "give a folder on another disk, where there is one with --work-dir",
        )


def _write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start in range(0, size, BLOCK_BYTES):
            file.write(_BLOCK[: min(BLOCK_BYTES, size - start)])


@contextmanager
def work_folder(asked_for: Path | None, run: Path, documents: Sequence[Document] = ()) -> Iterator[Path]:
    """Creates the working folder, and removes it at the end if it is temporary.

    A temporary folder is in the run's folder or, if that disk lacks room for the documents, in the system's temporary
    folder. A folder of the same name that is not ours stays as it is.
    """
    folder = asked_for or _with_room(_temporary(run), documents)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if asked_for is None:
            (folder / OURS).touch()
    except OSError as error:
        raise _no_work_folder(folder, error) from error
    try:
        yield folder.resolve()
    finally:
        if asked_for is None:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            except KeyboardInterrupt:
                # Removing a large site takes a while, and an interruption would leave files behind.
                shutil.rmtree(folder, ignore_errors=True)
                raise


def _temporary(run: Path) -> Path:
    """Where a working folder may be made and removed; what a run left that was killed is used again."""
    folder = run / "work"
    if not folder.exists() or (folder / OURS).is_file():
        return folder
    try:
        return _enterable("work-", run)
    except OSError as error:
        raise _no_work_folder(folder, error) from error


def _enterable(prefix: str, parent: Path | None = None) -> Path:
    """Makes a folder, which other users may enter: of the servers that root starts, some do not run as root."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    folder.chmod(0o755)
    return folder


def _no_work_folder(folder: Path, error: OSError) -> CouldNotRun:
    return CouldNotRun(f"cannot make the work folder {folder}: {error.strerror}", "give a --work-dir")


def _with_room(folder: Path, documents: Sequence[Document]) -> Path:
    try:
        check_room(folder, documents)
        return folder
    except CouldNotRun as error:
        full = error
    except OSError as error:
        full = _no_work_folder(folder, error)
    aside = _enterable("sojourn-work-")
    try:
        check_room(aside, documents)
    except CouldNotRun:
        aside.rmdir()
        raise full from None
    with suppress(OSError):
        folder.rmdir()
    return aside
