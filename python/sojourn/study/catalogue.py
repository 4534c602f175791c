"""Finds studies by name: in the folder `studies` here, in the source tree, or as installed."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.study.document import Study, read

_NOT_STUDIES = "systems"
"""The subfolder with system files for models, which are not studies."""


def find(target: str) -> Path:
    """Finds the file of a study by name or path.

    Raises:
        CouldNotRun: no such study; the hint names the nearest.
    """
    if target.endswith(".toml") or Path(target).is_file():
        return Path(target)
    known = dict(_named())
    if target in known:
        return known[target]
    near = difflib.get_close_matches(target, known, 1, 0.3)
    raise CouldNotRun(
        f"there is no study {target!r}", (f"did you mean {near[0]}? " if near else "") + "sojourn study list shows all"
    )


def system_file(name: str, beside: Path) -> Path:
    """Finds a system file by its name in `studies/systems`, or by a path relative to the study's file.

    Raises:
        CouldNotRun: no such file.
    """
    if name.endswith(".toml"):
        found = beside.parent / name
    else:
        places = [each / _NOT_STUDIES / f"{name}.toml" for each in _places()]
        found = next((each for each in places if each.is_file()), places[0])
    if not found.is_file():
        raise CouldNotRun(f"there is no system file {found}", "name one of studies/systems, or give its path")
    return found


def studies() -> list[tuple[Path, Study]]:
    """All studies, by name."""
    return [(path, read(path)[0]) for _, path in sorted(_named())]


def _named() -> Iterator[tuple[str, Path]]:
    root = next((each for each in _places() if each.is_dir()), None)
    for path in sorted(root.glob("*/*.toml")) if root else []:
        if path.parent.name != _NOT_STUDIES:
            yield f"{path.parent.name}/{path.stem}", path


def _places() -> Iterator[Path]:
    yield Path("studies")
    yield Path(__file__).parents[3] / "studies"
    yield Path(sys.prefix) / "share" / "sojourn" / "studies"
