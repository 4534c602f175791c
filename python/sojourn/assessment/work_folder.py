"""The folder an assessment works in: the built site, the server's configuration and logs.

A temporary one beside the run is removed at the end; one that was asked for is kept, and its site used again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.failure import CouldNotRun


@contextmanager
def work_folder(asked_for: Path | None, run: Path) -> Iterator[Path]:
    """Makes the folder and, if it is a temporary one, removes it."""
    folder = asked_for or run / "work"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CouldNotRun(f"cannot make the work folder {folder}: {error.strerror}", "give a --work-dir") from error
    try:
        yield folder.resolve()
    finally:
        if asked_for is None:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            except KeyboardInterrupt:
                # A large site takes a while to remove, and nobody would look for what is left of it.
                shutil.rmtree(folder, ignore_errors=True)
                raise
