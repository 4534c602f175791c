"""Systems of stations and classes, read from system files, and the analytic solvers' results for them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from sojourn import _native
from sojourn.queueing.arrays import Array, vector
from sojourn.queueing.distributions import Distribution
from sojourn.queueing.results import Prediction
from sojourn.text.toml import Table

_LINE = re.compile(r"line (\d+): ")


class SystemFileError(ValueError):
    """An invalid system file: `line` counts from 1, `message` gives the problem and a suggested fix."""

    def __init__(self, message: str, line: int | None = None, path: Path | None = None) -> None:
        place = ", ".join(part for part in (str(path or ""), f"line {line}" if line else "") if part)
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.line = line
        self.path = path


class SettingError(ValueError):
    """A setting that the file has no place for: `message` gives the problem, `cure` what to write instead."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure


@dataclass(frozen=True)
class StationModel:
    """A station: `discipline` is fifo, ps, lps (with `r`) or is."""

    name: str
    discipline: str
    r: int | None
    servers: int
    state_dependent: bool = False
    """True if its speed depends on the number of jobs in service: v(n)."""
    saturation: float | None = None
    """Seconds of work per second at a full station; None for a delay, which is never full."""
    capacity: int | None = None
    """The most jobs present; None without a limit."""
    when_full: str | None = None
    """The fate of a job that finds the station full: refuse, block or retry."""
    is_lossy: bool = False
    """True if a full station may lose jobs."""
    certain_work: float | None = None
    """Seconds of work per second that open classes certainly bring to it, whatever is lost earlier. None if it cannot
    be overloaded: a delay, or a station that refuses jobs.
    """

    @property
    def is_delay(self) -> bool:
        """True for a delay, where jobs do not hinder each other."""
        return self.discipline == "is"


@dataclass(frozen=True)
class Visit:
    """A stop of a route: the first two moments of its demand (s, s²), and the stations held meanwhile."""

    station: str
    demand_mean_seconds: float
    demand_second_moment_seconds2: float
    by_size: bool
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """One of a class's routes, with its probability."""

    name: str
    probability: float
    visits: tuple[Visit, ...]


@dataclass(frozen=True)
class ClassModel:
    """A class of jobs: open with a rate in 1/s, or closed with users and their mean think time in seconds."""

    name: str
    rate_per_second: float | None
    users: int | None
    think_time_seconds: float | None
    latency_seconds: float
    document_mean_bytes: float | None
    routes: tuple[Route, ...]


class System:
    """A system, parsed from the text of a system file.

    Raises:
        SystemFileError: with the line and a suggested fix.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            structure = _native.system_structure(text)
        except ValueError as error:
            raise _located(str(error)) from None
        self.name: str = structure["name"]
        self.stations = tuple(StationModel(**station) for station in structure["stations"])
        """In the order of the file."""
        self.classes = tuple(_class(each) for each in structure["classes"])
        """In the order of the file."""

    @classmethod
    def from_file(cls, path: str | Path) -> System:
        """Reads a system file.

        Raises:
            OSError: if it cannot be read.
            SystemFileError: with the path, the line and a suggested fix.
        """
        try:
            return cls(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise SystemFileError(f"this is not text in UTF-8: {error.reason}", None, Path(path)) from None
        except SystemFileError as error:
            raise SystemFileError(error.message, error.line, Path(path)) from None

    def document(self, class_name: str) -> Distribution | None:
        """The distribution of a class's document sizes in bytes; None without documents.

        Raises:
            KeyError: if there is no such class.
        """
        native = _native.system_document(self.text, class_name)
        # The family of the distribution is not retained, so there is no density.
        return None if native is None else Distribution(native, "document", None)

    def demands(self, class_name: str, sizes: ArrayLike) -> list[list[Array]]:
        """The seconds of demand at each visit for documents of these sizes (bytes): one array per visit of each route.

        A demand that does not depend on the size gives its mean.

        Raises:
            KeyError: if there is no such class.
        """
        return _native.system_demands(self.text, class_name, vector(sizes, "sizes"))

    def open_utilisations(self) -> dict[str, float]:
        """The utilisation that open classes alone offer to each station except delays, refused jobs included.

        Below 1 in steady state; it may be above where the excess is refused.
        """
        work = dict.fromkeys((station.name for station in self.stations), 0.0)
        for each in self.classes:
            for route in each.routes:
                for visit in route.visits:
                    rate = (each.rate_per_second or 0.0) * route.probability
                    work[visit.station] += rate * visit.demand_mean_seconds
        limited = [each for each in self.stations if each.saturation is not None]
        return {each.name: _utilisation(work[each.name], each) for each in limited}

    @property
    def is_lossy(self) -> bool:
        """True if some jobs may be lost."""
        return any(each.is_lossy for each in self.stations)

    def unstable_station(self) -> str | None:
        """The station that open traffic overloads most; None in steady state."""
        certain = [(each, each.certain_work) for each in self.stations]
        loads = {each.name: _utilisation(work, each) for each, work in certain if work is not None}
        overloaded = {name: load for name, load in loads.items() if load >= 1}
        return max(overloaded, key=lambda name: overloaded[name], default=None)


def with_settings(text: str, settings: Sequence[str]) -> str:
    """The text of a system file with `NAME=VALUE` settings, applied in order; its comments are lost.

    A setting names a key of the file (`station.line.rate`, `class.members.users`, `document.mu`), or one of the
    parameters that are not keys: a station's `speed`, a factor on how fast all demands are served there; `speed`, that
    factor for all stations but delays; a route's `probability`, to which the class's other routes are scaled;
    `traffic`, a factor on all of the offered load; and `sizes`, a factor on all document sizes.

    Raises:
        SettingError: a name is unknown or a value impossible. Reading the result checks the rest.
    """
    try:
        return _native.system_with_settings(text, list(settings))
    except ValueError as error:
        raise SettingError(*error.args) from None


def predict(system: System, *, percentiles: bool = True) -> Prediction:
    """All analytic solvers' answers or refusals, the bounds, and the bottleneck.

    Closed forms (Eq. 2.2, Pollaczek-Khinchine, PS), exact M/PH/1/LPS-r, mean value analysis (exact, approximate,
    load-dependent, all with LPS as PS), and the thesis's fixed point: `docs/models.md` says which holds when. Open
    systems get percentiles too, in some ten milliseconds per class; without `percentiles` it takes microseconds.
    """
    prediction: Prediction = _native.predict_system(system.text, percentiles)  # type: ignore[assignment]
    return prediction


def _utilisation(work: float, station: StationModel) -> float:
    if station.saturation is None or work == 0:
        return 0.0
    # Contention can stop a full station altogether: then any open traffic is too much.
    return work / station.saturation if station.saturation > 0 else math.inf


def _located(message: str) -> SystemFileError:
    match = _LINE.match(message)
    return SystemFileError(message[match.end() :], int(match[1])) if match else SystemFileError(message)


def _class(structure: Table) -> ClassModel:
    routes = tuple(
        Route(route["name"], route["probability"], tuple(map(_visit, route["visits"]))) for route in structure["routes"]
    )
    return ClassModel(**{**structure, "routes": routes})


def _visit(structure: Table) -> Visit:
    return Visit(**{**structure, "holds": tuple(structure["holds"])})
