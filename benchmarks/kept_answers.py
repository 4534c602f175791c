"""The answers of assessments that an earlier run of a benchmark kept, and what they were asked for."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import machine

ASKED = "asked.json"
"""The effort and the revision of an answer, in its folder."""

Asked = dict[str, str]


def asked_for(effort: str) -> Asked:
    """Returns what an assessment with this effort is asked for now."""
    return {"effort": effort, "revision": machine.revision()}


def mark(folder: Path, asked: Asked) -> None:
    """Notes what the answer in a folder was asked for, if there is a folder."""
    if folder.is_dir():
        (folder / ASKED).write_text(json.dumps(asked))


def is_answer_to(asked: Asked, folder: Path) -> bool:
    """Returns true if the answer in a folder was asked for the same."""
    try:
        return bool(json.loads((folder / ASKED).read_text()) == asked)
    except (OSError, ValueError):
        return False
