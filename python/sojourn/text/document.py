"""Files that people write, read whole and only so far: studies, system files."""

from __future__ import annotations

from pathlib import Path

from sojourn.failure import CouldNotRun

BYTES_MAX = 1 << 20
"""The largest file read; the native reader of system files has the same limit."""


def read_text(path: Path, cure: str) -> str:
    """The file's text.

    Raises:
        CouldNotRun: it cannot be read, is too large, or is not text; `cure` says what to give instead.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise CouldNotRun(f"cannot read {path}: {error.strerror}", cure) from error
    if len(raw) > BYTES_MAX:
        raise CouldNotRun(f"{path} is larger than {BYTES_MAX:,} bytes", cure)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise CouldNotRun(f"{path} is not text in UTF-8", cure) from None
