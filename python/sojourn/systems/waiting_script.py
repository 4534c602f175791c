"""A CGI script that takes a known time: in studies a limited number of its processes is a limited station."""

from __future__ import annotations

import shlex
from pathlib import Path

NAME = "file"
"""The script's name, and that of the file which it sends."""
_TEXT = """#!/bin/sh
sleep 0.02
printf 'Content-Type: application/octet-stream\\n\\n'
exec cat {file}
"""
_EXECUTABLE = 0o755


def write(folder: Path, root: Path) -> Path:
    """Writes the script into a new directory in `folder`; returns the directory.

    It waits 20 ms, as for a database, and sends the file of its name below `root`.
    """
    directory = folder / "scripts"
    directory.mkdir()
    script = directory / NAME
    script.write_text(_TEXT.format(file=shlex.quote(str(root.absolute() / NAME))))
    script.chmod(_EXECUTABLE)
    return directory
