"""The parts of a study's file: systems, what they are asked, checks, plots, printed figures, and the shorter study.

Texts of systems, workloads, models and programs may name factors in braces: `--clients {clients}`; braces of their own
are doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from sojourn.loading.metric import Quantity

Value = str | int | float
"""Of a factor."""
Where = dict[str, Value | list[Value]]
"""Which cells: factors and their values, or bounds as in `<= 10KiB`."""

Places = Literal["each", "together"]
Evidence = Literal["measured", "simulated", "arithmetic", "identity of the model"]
"""What points come from: arithmetic and a model's formulas say the same each time."""

SYSTEM = "system"
"""The factor that every study has."""
SIMULATION = "simulation"
"""The solver of a model that is none."""
NONE = "none"
"""Of a link or a limit: there is none."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemEntry(_Part):
    """A system under test, by the name that plots and checks call it."""

    name: str
    system: str = "sojourn"
    """Of the table of systems, or the URL of a server that runs."""
    architecture: str = "amped"
    options: list[str] = []
    """Further options of a system that takes some; of a model with a solver, further settings of its parameters."""
    solver: str | None = None
    """Of a model: the analytic solver's name, or `simulation`."""
    run: list[str] = []
    """A command: of the program that is asked for figures, or of a server that is none of the table's."""
    only: Where = {}
    """The cells in which it is measured; all, if none are named."""


class FileEntry(_Part):
    """A file of the site, and its share of the requests."""

    path: str
    size: str
    weight: Value = 1


class Films(_Part):
    """Films that viewers play, all alike and each a file of its own; texts may name factors."""

    rate: str = "300k"
    """Of picture and sound together, in bits a second."""
    seconds: float = 30.0
    number: Value = 1
    """How many: they are dealt to the viewers in turn."""


class Workload(_Part):
    """What a server is asked for, and how."""

    files: str | list[FileEntry] | None = None
    """Or a set's name: `webstone`, `webstone at 9.5kB` (its mean), `log-normal at 9.5kB`, `log` (its documents)."""
    load: list[str] = []
    """Options of `sojourn load`."""
    films: Films | None = None
    """Or films instead, which a streaming server sends to the viewers of `sojourn load rtsp://`."""
    replay: list[str] = []
    """Options of `sojourn replay`, which asks for the documents of the study's log instead."""
    link: str = NONE
    """Options of `sojourn link`, behind which the clients then are."""
    memory: str = NONE
    """How much of it the server has, the pages of its files included."""
    cpu: str = NONE
    """How much of its core the server has: 0.25 is a quarter."""
    cold: bool = False
    """Whether the files' pages are dropped from memory before each point."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if [self.files is not None, self.films is not None, bool(self.replay)].count(True) != 1:
            raise ValueError("a workload has `files` and `load`, `films` and `load`, or `replay`")
        return self


class Model(_Part):
    """A system file that solvers answer for."""

    system: str
    """Its name in `studies/systems`, or its path."""
    settings: list[str] = []
    """Of its parameters, as `--set` of `sojourn predict` takes them."""
    half_width: float = Field(default=0.01, gt=0, lt=1)
    """At which a simulation ends, as a fraction of the mean."""
    jobs_max: int = Field(default=2_000_000, ge=100_000)
    """Of a simulation."""
    document: str | None = None
    """A size: what the metric `by_size` is the mean response time of."""
    find: str | None = None
    """A parameter whose smallest value that meets `target` is the metric `found`."""
    target: str | None = None
    """As `sojourn plan` takes it: `residence of line < {delay}`."""


class Declared(_Part):
    """A metric that is read from a program's output."""

    at: str
    """Keys and places of the JSON object, joined by dots."""
    quantity: Quantity


class Program(_Part):
    """Programs that print one JSON object each; every system has its own command, `run`."""

    metrics: dict[str, Declared]
    files: str | list[FileEntry] | None = None
    """A site for them, `{root}` in their commands; its list of files is `{mix}`."""
    films: Films | None = None
    """Films instead, in `{root}`; their list is `{media}`."""
    doubtful: str | None = None
    """Where its output lists why its figures are not to be believed; none are listed where they are."""
    evidence: Evidence | None = None
    """What its figures come from; of a command that is not ours `measured`, if this is not given."""

    @model_validator(mode="after")
    def _has_one_site(self) -> Self:
        if self.files is not None and self.films is not None:
            raise ValueError("a program has `files` or `films`")
        return self


class _Claim(_Part):
    """A finding of the source, in words, and the metric that shows it."""

    says: str
    metric: str
    because: list[Check] = []
    """What would explain that it does not hold, each a check of its own: an explanation is measured, too."""
    over: Where = {}

    @property
    def wheres(self) -> list[Where]:
        """The cells of its sides, or all that it is of."""
        sides = [getattr(self, name) for name in ("left", "right") if hasattr(self, name)]
        return [{**self.over, **side} for side in sides] or [self.over]

    def goes_along(self, factor: str) -> bool:
        """Whether it compares the values of a factor with each other, all of them."""
        return getattr(self, "along", None) == factor and factor not in self.over

    def named(self, factor: str) -> list[Value]:
        """What it says of a factor: values and bounds."""
        sides = [side[factor] for name in ("left", "right", "over") if factor in (side := getattr(self, name, {}))]
        return [value for side in sides for value in (side if isinstance(side, list) else [side])]


class _Placed(_Claim):
    """A finding of several places."""

    places: Places = "each"
    """Whether it is said of each place by itself, or of the mean over all of them."""


class Ratio(_Placed):
    """Left over right lies between `least` and `most`, of every left cell and every right one that go together."""

    kind: Literal["ratio"] = "ratio"
    right_metric: str | None = None
    """Of the right side, where it is another."""
    left: Where = {}
    right: Where = {}
    least: float | None = None
    most: float | None = None


class Within(_Placed):
    """The metric itself lies between `least` and `most`, in every cell."""

    kind: Literal["within"]
    least: float | None = None
    most: float | None = None


class Monotone(_Placed):
    """The metric rises, or falls, along a factor: in every step from one value to the next, and from end to end."""

    kind: Literal["monotone"]
    along: str
    direction: Literal["rises", "falls"]
    slack: float = Field(default=0.0, ge=0, lt=1)
    """By which part a step may go back, so that a level stretch does not leave it open."""


class Crossing(_Placed):
    """Left is below right up to the value `after` of a factor, and above it from the value `before` on.

    Without them at its first value and at its last.
    """

    kind: Literal["crossing"]
    right_metric: str | None = None
    along: str
    left: Where = {}
    right: Where = {}
    after: Value | None = None
    before: Value | None = None


class FixedPart(_Claim):
    """Of a straight line along a factor: as much of the factor as costs what the fixed part costs lies between."""

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
    """The checks and, behind each, those that would explain it."""
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
        """What is drawn."""
        return [self.y] if isinstance(self.y, str) else self.y

    @property
    def by(self) -> list[str]:
        """The factors whose values have a line each."""
        return [self.lines] if isinstance(self.lines, str) else self.lines


class Printed(_Part):
    """A figure that the source prints."""

    metric: str
    value: float
    at: Where
    where_printed: str


class Coefficients(_Part):
    """Of a straight line."""

    intercept: float
    slope: float


class Fit(_Part):
    """A straight line through a metric along a factor, over its value at `reference` if that is given."""

    says: str
    metric: str
    along: str
    reference: Value | None = None
    over: Where = {}
    printed: Coefficients | None = None
    """The line that the source prints."""


class Quick(_Part):
    """What `--quick` replaces."""

    repetitions: int | None = Field(default=None, ge=1)
    warm_up_seconds: float | None = Field(default=None, ge=0)
    duration_seconds: float | None = Field(default=None, gt=0)
    point_seconds: float | None = Field(default=None, gt=0)
    half_width: float | None = Field(default=None, gt=0, lt=1)
    systems: list[str] | None = None
    factors: dict[str, list[Value]] = {}
    listed: list[dict[str, Value]] | None = None
