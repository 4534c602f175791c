"""The system file that a page edits: read, and written only if it is still the one that the page has read."""

from __future__ import annotations

import hashlib
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.planning.system_document import SystemDocument
from sojourn.results import writing
from sojourn.text import toml

NAME_DEFAULT = "system.toml"
SUFFIX = ".toml"


@dataclass(frozen=True)
class OnDisk:
    """The file as it is now."""

    text: str
    version: str
    """Equal for equal content; empty if there is no file."""


@dataclass(frozen=True)
class Changed:
    """The file was not written, because it is not the one that was read."""

    name: str
    now: OnDisk


@dataclass(frozen=True)
class Saved:
    """The file was written."""

    name: str
    version: str
    problem: str | None
    """Why `sojourn predict` refuses the file; None if it reads it."""


class EditedFile:
    """One file; the first save of a page that was opened without one chooses its name.

    Args:
        path: the file, which need not exist; None to choose its name when saving.
        folder: where a chosen name is written.

    Raises:
        CouldNotRun: the file cannot be read, or its folder does not exist.
    """

    def __init__(self, path: Path | None, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._writing = threading.Lock()
        if path is not None and not path.parent.is_dir():
            raise CouldNotRun(f"there is no folder {path.parent}", "make it, or give another file")
        self.read()

    @property
    def name(self) -> str:
        """The file as given, or the name that a new one has if the page gives it no other."""
        return NAME_DEFAULT if self._path is None else str(self._path)

    @property
    def is_named(self) -> bool:
        """Whether its name is decided."""
        return self._path is not None

    def read(self) -> OnDisk:
        """Reads the file.

        Raises:
            CouldNotRun: it cannot be read, is too large, or is not text.
        """
        return _read(self._path)

    def save(self, text: str, version: str, name: str) -> Saved | Changed:
        """Writes the file if its version is still this one, else returns what is there instead.

        Raises:
            CouldNotRun: it cannot be written, or the name of a new file is none.
        """
        if len(text.encode()) > toml.BYTES_MAX:
            raise CouldNotRun(f"a system file may have {toml.BYTES_MAX:,} bytes", "remove something")
        with self._writing:
            path = self._path or self._chosen(name)
            now = _read(path)
            if now.version != version:
                return Changed(str(path), now)
            # A link stays a link.
            target = path.resolve()
            if not writing.write(target, lambda partial: _write(partial, text, target)):
                raise writing.failure() or CouldNotRun(f"{path} was not written")
            self._path = path
            return Saved(str(path), _version(text.encode()), _problem(text, str(path)))

    def _chosen(self, name: str) -> Path:
        plain = Path(name).name
        if plain != name or not name.endswith(SUFFIX) or name.startswith("."):
            raise CouldNotRun(f"{name!r} is no name for a system file", f"give one that ends with {SUFFIX}")
        return self._folder / name


def _read(path: Path | None) -> OnDisk:
    if path is None or not path.exists():
        return OnDisk("", "")
    text = toml.read_text(path, f"give a system file ({SUFFIX})")
    return OnDisk(text, _version(text.encode()))


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(partial: Path, text: str, target: Path) -> None:
    partial.write_text(text, encoding="utf-8", newline="")
    if target.exists():
        shutil.copymode(target, partial)


def _problem(text: str, source: str) -> str | None:
    try:
        SystemDocument.parse(text, source)
    except CouldNotRun as failure:
        return failure.said
    return None
