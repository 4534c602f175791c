"""A system file whose parameters can be changed by settings: `station.web.speed=2`, as in `queueing.with_settings`."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.queueing import SettingError, System, SystemFileError, with_settings
from sojourn.text.toml import Table, read_text

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*")
_LINE = re.compile(r" \(line ([0-9]+)\)")
_SCHEMA = "docs/models.md has the schema of a system file"


class SystemDocument:
    """A system file with its settings; immutable."""

    def __init__(self, text: str, settings: tuple[str, ...] = (), source: str = "system") -> None:
        self.source = source
        """The file that it was read from."""
        self.text = text
        """A system file: the original, or one without its comments and layout where settings were made."""
        self.settings = settings
        """The changes, as `NAME=VALUE`, in order."""

    @classmethod
    def read(cls, path: Path, settings: Sequence[str] = ()) -> SystemDocument:
        """Reads a system file and applies the settings.

        Raises:
            CouldNotRun: with file, line and a suggested fix, or the setting and the nearest name.
        """
        return cls.parse(read_text(path, "give a system file (TOML)"), str(path), settings)

    @classmethod
    def parse(cls, text: str, source: str, settings: Sequence[str] = ()) -> SystemDocument:
        """As `read` with the text of the file `source`."""
        try:
            system = System(text)
        except SystemFileError as error:
            what, _, cure = error.message.partition("; ")
            raise CouldNotRun(f"{source}, line {error.line}: {what}", cure or _SCHEMA) from None
        _refuse_without_moments(source, system)
        document = cls(text, source=source)
        try:
            _ = document._content
        except tomllib.TOMLDecodeError as error:
            # The models' parser takes more: a second byte-order mark, tables in braces over several lines.
            raise CouldNotRun(f"{source}: {error}", "write it as TOML 1.0") from None
        return document.set(*settings) if settings else document

    def __getstate__(self) -> dict[str, object]:
        # What was parsed stays here: it is made of the text where it is needed.
        return {name: value for name, value in self.__dict__.items() if name not in ("system", "_content")}

    def set(self, *settings: str) -> SystemDocument:
        """Applies the settings one after the other.

        Raises:
            CouldNotRun: if a name is unknown or the result is not a valid system.
        """
        try:
            text = with_settings(self.text, settings)
        except SettingError as error:
            raise CouldNotRun(f"--set {error.message}", error.cure) from None
        changed = SystemDocument(text, (*self.settings, *settings), self.source)
        try:
            _ = changed.system
        except SystemFileError as error:
            what, _, cure = changed.said(error.message).partition("; ")
            raise CouldNotRun(f"--set {' --set '.join(settings)}: {what}", cure or _SCHEMA) from None
        return changed

    def failure(self, message: str) -> CouldNotRun:
        """Converts a solver's refusal to a failure with file, line and a suggested fix."""
        line = None if self.settings else _LINE.search(message)
        what, _, cure = _LINE.sub("", message).partition("; ")
        return CouldNotRun(f"{self.source}{f', line {line[1]}' if line else ''}: {what}", cure or None)

    @cached_property
    def _content(self) -> Table:
        return tomllib.loads(self.text)

    @cached_property
    def system(self) -> System:
        """The system for the solvers."""
        return System(self.text)

    def said(self, message: str) -> str:
        """Removes line numbers from a solver's message, because they refer to a generated file."""
        return _LINE.sub("", message) if self.settings else message

    @property
    def description(self) -> str:
        """The file's description, written by its author or by `sojourn fit`."""
        return str(self._content.get("description", ""))

    @property
    def stations(self) -> Mapping[str, Table]:
        """The `[stations]` of the file."""
        return self._tables("stations")

    @property
    def classes(self) -> Mapping[str, Table]:
        """The `[classes]` of the file."""
        return self._tables("classes")

    def _tables(self, kind: str) -> Mapping[str, Table]:
        tables: Mapping[str, Table] = self._content[kind]
        return tables


def quantity(text: str) -> tuple[float, str]:
    """Splits a quantity of a system file into number and unit; the unit may be empty.

    Raises:
        CouldNotRun: if it does not begin with a number.
    """
    match = _QUANTITY.fullmatch(text)
    try:
        return float(match[1] if match else ""), match[2] if match else ""
    except ValueError:
        raise CouldNotRun(f"{text!r} is not a number with a unit", "write it as in 1.5Mbit/s or 195ms") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"


def _refuse_without_moments(source: str, system: System) -> None:
    """Refuses demands whose mean or variance overflows, because no solver can answer."""
    for each in system.classes:
        for visit in (visit for route in each.routes for visit in route.visits):
            # JSON has no infinity and gives null instead.
            if visit.demand_mean_seconds is None or visit.demand_second_moment_seconds2 is None:
                raise CouldNotRun(
                    f"{source}: the demand of {each.name} at {visit.station} is too large: its mean or its variance is "
                    "beyond all numbers",
                    "look at its unit, and at mu and sigma of its law",
                )
