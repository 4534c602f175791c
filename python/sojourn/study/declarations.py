"""The parts of a study's file: systems, workload, checks, plots, printed figures, and the shorter study.

Texts of systems, workloads, models and programs may contain factors in braces, such as `--clients {clients}`; write
literal braces twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from sojourn.loading.metric import Quantity
from sojourn.systems.origins import LOCAL

Value = str | int | float
"""A value of a factor."""
Where = dict[str, Value | list[Value]]
"""Selects cells: factors with values, or with bounds such as `<= 10KiB`."""

Places = Literal["each", "together"]
Evidence = Literal["measured", "simulated", "arithmetic", "identity of the model"]
"""The kind of evidence of points: arithmetic and formulas give the same each time."""

SYSTEM = "system"
"""The factor that every study has: its systems."""
SIMULATION = "simulation"
"""The solver name that means simulation."""
NONE = "none"
"""The value of a link or limit that means none."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemEntry(_Part):
    """A system under test, with its name in plots and checks."""

    name: str
    system: str = "sojourn"
    """A name from the table of systems, or the URL of a running server."""
    architecture: str = "amped"
    options: list[str] = []
    """Additional options of the system; for a model with a solver, additional parameter settings."""
    origin: str = LOCAL
    """Where its files are: `local`, or on another machine by `nfs`, `s3`, `http`, `sshfs`, `blocks` or `everything`."""
    origin_link: str = ""
    """Options of `sojourn link`, behind which that machine is."""
    solver: str | None = None
    """For a model: the analytic solver's name, or `simulation`."""
    of: str | None = None
    """For a model: the system whose loads it has the arrivals of, and is fitted to; any if there is none."""
    run: list[str] = []
    """A command: the program that prints the figures, or a server outside the table."""
    only: Where = {}
    """The cells in which it is measured; empty for all."""


class FileEntry(_Part):
    """A file of the site, with its share of the requests."""

    path: str
    size: str
    weight: Value = 1


class Films(_Part):
    """Films that viewers play: identical, each in its own file; texts may contain factors."""

    rate: str = "300k"
    """The bit rate of picture and sound together, per second."""
    seconds: float = 30.0
    number: Value = 1
    """The number of films; they are assigned to the viewers in turn."""


class Workload(_Part):
    """The load on a server: its files and how they are requested."""

    files: str | list[FileEntry] | None = None
    """Files, or a set's name: `webstone`, `webstone at 9.5kB` (its mean), `log-normal at 9.5kB`, `log` (its documents).
    """
    load: list[str] = []
    """Options of `sojourn load`."""
    films: Films | None = None
    """Films instead of files, which a streaming server sends to the viewers of `sojourn load rtsp://`."""
    replay: list[str] = []
    """Options of `sojourn replay`, which requests the documents of a log instead."""
    log: str | None = None
    """The log, if it is not the study's: so that several can be compared."""
    link: str = NONE
    """Options of `sojourn link`: the clients are then behind that link."""
    memory: str = NONE
    """The server's memory limit, including the pages of its files."""
    disk: str = NONE
    """How fast the disk that holds the files may be read: `20MiB/s`, `100 reads/s`, or both, joined by `and`."""
    cpu: str = NONE
    """The server's share of its core: 0.25 is a quarter."""
    cold: bool = False
    """Set to drop the files' pages from memory before each point."""
    access_log: bool = False
    """Set to let the server write a line per request."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if [self.files is not None, self.films is not None, bool(self.replay)].count(True) != 1:
            raise ValueError("a workload has `files` and `load`, `films` and `load`, or `replay`")
        return self


class FittedParameter(_Part):
    """A parameter of a model that a load tells: with it, the simulated mean response time there is the measured one."""

    parameter: str
    """As in a setting: `station.workers.demand`."""
    at: Where
    """The load that tells it, a light one."""
    same: list[str] = []
    """The factors in which that load is the same as the point."""


class Model(_Part):
    """A system file for the solvers."""

    system: str
    """Its name in `studies/systems`, or its path."""
    settings: list[str] = []
    """Parameter settings, as for `--set` of `sojourn predict`."""
    arrivals: str | None = None
    """The only class of the system, an open one. A simulation then has the very arrivals of the load measured in
    the same repetition with the same factors, so that chance in the arrivals is not taken for an error of the model.
    """
    fitted: FittedParameter | None = None
    """Needs `arrivals`."""
    half_width: float = Field(default=0.01, gt=0, lt=1)
    """The simulation ends at this half-width, as a fraction of the mean."""
    jobs_max: int = Field(default=2_000_000, ge=100_000)
    """The most jobs of a simulation."""
    document: str | None = None
    """A document size: the metric `by_size` is the mean response time at it."""
    find: str | None = None
    """A parameter: the metric `found` is its smallest value that meets `target`."""
    target: str | None = None
    """The target, as for `sojourn plan`: `residence of line < {delay}`."""


class Declared(_Part):
    """A metric read from a program's output."""

    at: str
    """The path in the JSON object: keys, indices and `key=value`, which chooses of a list, joined by dots.

    It may contain factors in braces.
    """
    quantity: Quantity


class Program(_Part):
    """Programs that each print one JSON object; every system has its own command, `run`."""

    metrics: dict[str, Declared]
    files: str | list[FileEntry] | None = None
    """The site for the programs: `{root}` in their commands; its list of files is `{mix}`."""
    films: Films | None = None
    """Films instead, in `{root}`; their list is `{media}`."""
    doubtful: str | None = None
    """The path of reasons for doubt in its output; an empty list means none."""
    evidence: Evidence | None = None
    """The kind of evidence; by default `measured` for external commands."""

    @model_validator(mode="after")
    def _has_one_site(self) -> Self:
        if self.files is not None and self.films is not None:
            raise ValueError("a program has `files` or `films`")
        return self


class _Claim(_Part):
    """A finding of the source in words, and the metric that shows it."""

    says: str
    metric: str
    because: list[Check] = []
    """Possible explanations if it does not hold, each a check of its own, because explanations are measured, too."""
    over: Where = {}

    @property
    def wheres(self) -> list[Where]:
        """The cells of its sides, or all its cells."""
        sides = [getattr(self, name) for name in ("left", "right") if hasattr(self, name)]
        return [{**self.over, **side} for side in sides] or [self.over]

    def goes_along(self, factor: str) -> bool:
        """Returns true if it compares all values of a factor with each other."""
        return getattr(self, "along", None) == factor and factor not in self.over

    def named(self, factor: str) -> list[Value]:
        """The values and bounds that it names for a factor."""
        sides = [side[factor] for name in ("left", "right", "over") if factor in (side := getattr(self, name, {}))]
        return [value for side in sides for value in (side if isinstance(side, list) else [side])]


class _Placed(_Claim):
    """A finding about several places."""

    places: Places = "each"
    """Whether it applies to each place separately, or to the mean over all of them."""


class Ratio(_Placed):
    """Left over right lies between `least` and `most`, for every matching pair of cells."""

    kind: Literal["ratio"] = "ratio"
    right_metric: str | None = None
    """The metric of the right side, if different."""
    left: Where = {}
    right: Where = {}
    least: float | None = None
    most: float | None = None


class Within(_Placed):
    """The metric lies between `least` and `most` in every cell."""

    kind: Literal["within"]
    least: float | None = None
    most: float | None = None


class Monotone(_Placed):
    """The metric rises or falls along a factor: in every step from one value to the next, and from end to end."""

    kind: Literal["monotone"]
    along: str
    direction: Literal["rises", "falls"]
    slack: float = Field(default=0.0, ge=0, lt=1)
    """The fraction by which a step may go in the other direction, so that a plateau does not leave the check open."""


class Crossing(_Placed):
    """Left is below right up to the factor's value `after`, and above it from the value `before`.

    By default these are the first and the last value.
    """

    kind: Literal["crossing"]
    right_metric: str | None = None
    along: str
    left: Where = {}
    right: Where = {}
    after: Value | None = None
    before: Value | None = None


class FixedPart(_Claim):
    """The amount of a factor that costs as much as the fixed part of a straight line lies between the bounds."""

    kind: Literal["fixed part"]
    along: str
    least: Value | None = None
    most: Value | None = None


def _kind(check: object) -> str:
    found = check.get("kind", "ratio") if isinstance(check, Mapping) else getattr(check, "kind", "ratio")
    return str(found)


Check = Annotated[
    Annotated[Ratio, Tag("ratio")]
    | Annotated[Within, Tag("within")]
    | Annotated[Monotone, Tag("monotone")]
    | Annotated[Crossing, Tag("crossing")]
    | Annotated[FixedPart, Tag("fixed part")],
    Discriminator(_kind),
]

for _each in (Ratio, Within, Monotone, Crossing, FixedPart):
    _each.model_rebuild()


def with_explanations(checks: Iterable[Check]) -> list[Check]:
    """The checks, each followed by its explanations."""
    return [found for each in checks for found in (each, *with_explanations(each.because))]


class Plot(_Part):
    """A figure: metrics over a factor or another metric, a line per value of other factors."""

    title: str
    x: str
    """A factor, or a metric."""
    y: str | list[str]
    lines: str | list[str] = SYSTEM
    over: Where = {}
    x_scale: Literal["linear", "logarithmic"] = "linear"
    y_scale: Literal["linear", "logarithmic"] = "linear"

    @property
    def metrics(self) -> list[str]:
        """The metrics that are drawn."""
        return [self.y] if isinstance(self.y, str) else self.y

    @property
    def by(self) -> list[str]:
        """The factors with a line per value."""
        return [self.lines] if isinstance(self.lines, str) else self.lines


class Printed(_Part):
    """A figure printed by the source."""

    metric: str
    value: float
    at: Where
    where_printed: str


class Coefficients(_Part):
    """The coefficients of a straight line."""

    intercept: float
    slope: float


class Fit(_Part):
    """A straight line through a metric along a factor, divided by its value at `reference` if given."""

    says: str
    metric: str
    along: str
    reference: Value | None = None
    over: Where = {}
    printed: Coefficients | None = None
    """The line that the source prints, for comparison."""


class Quick(_Part):
    """The values that `--quick` replaces."""

    repetitions: int | None = Field(default=None, ge=1)
    warm_up_seconds: float | None = Field(default=None, ge=0)
    duration_seconds: float | None = Field(default=None, gt=0)
    point_seconds: float | None = Field(default=None, gt=0)
    half_width: float | None = Field(default=None, gt=0, lt=1)
    systems: list[str] | None = None
    factors: dict[str, list[Value]] = {}
    listed: list[dict[str, Value]] | None = None
