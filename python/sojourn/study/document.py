"""A study as it is declared: the TOML file, checked, with the shorter one that `--quick` makes of it.

Texts of systems and of the workload may name factors in braces: `--clients {clients}`. Factors are crossed, with each
other and with the systems; `quick` replaces what it names.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sojourn.failure import CouldNotRun
from sojourn.loading import metrics

Value = str | int | float
"""Of a factor."""
Where = dict[str, Value | list[Value]]
"""Which cells: factors and their values, or bounds as in `<= 10KiB`."""

SYSTEM = "system"
"""The factor that every study has."""
DOCUMENT_BYTES_MAX = 1 << 20


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemEntry(_Part):
    """A system under test, by the name that plots and checks call it."""

    name: str
    system: str = "sojourn"
    """Of the table of systems, or the URL of a server that runs."""
    architecture: str = "amped"
    options: list[str] = []
    """Further options of a system that takes some."""


class FileEntry(_Part):
    """A file of the site, and its share of the requests."""

    path: str
    size: str
    weight: Value = 1


class Workload(_Part):
    """What is asked for, and how."""

    files: Literal["webstone"] | list[FileEntry]
    load: list[str]
    """Options of `sojourn load`."""


class Ratio(_Part):
    """Left over right lies between `least` and `most`, taken together over all places where both were measured."""

    kind: Literal["ratio"] = "ratio"
    says: str
    metric: str
    left: Where
    right: Where
    over: Where = {}
    least: float | None = None
    most: float | None = None


class Monotone(_Part):
    """The metric rises, or falls, along a factor."""

    kind: Literal["monotone"]
    says: str
    metric: str
    along: str
    direction: Literal["rises", "falls"]
    over: Where = {}


class Crossing(_Part):
    """Left is below right at one end of a factor and above at the other, with the change between two of its values."""

    kind: Literal["crossing"]
    says: str
    metric: str
    along: str
    left: Where
    right: Where
    over: Where = {}
    after: Value | None = None
    before: Value | None = None


Check = Ratio | Monotone | Crossing


class Plot(_Part):
    """A figure: a metric over a factor, a line per value of another."""

    title: str
    x: str
    y: str
    lines: str = SYSTEM
    over: Where = {}
    x_scale: Literal["linear", "logarithmic"] = "linear"
    y_scale: Literal["linear", "logarithmic"] = "linear"


class Printed(_Part):
    """A figure that the source prints."""

    metric: str
    value: float
    at: Where
    where_printed: str


class Quick(_Part):
    """What `--quick` replaces."""

    repetitions: int | None = Field(default=None, ge=1)
    warm_up_seconds: float | None = Field(default=None, gt=0)
    duration_seconds: float | None = Field(default=None, gt=0)
    systems: list[str] | None = None
    factors: dict[str, list[Value]] = {}


class Study(_Part):
    """One study."""

    name: str
    title: str
    source: str
    question: str
    differs: str | None = None
    """How this differs from the source's experiment, where a reader has to know."""
    repetitions: int = Field(default=5, ge=1)
    warm_up_seconds: float = Field(default=2.0, gt=0)
    duration_seconds: float = Field(default=10.0, gt=0)
    seed: int = Field(default=1, ge=0)
    systems: list[SystemEntry]
    factors: dict[str, list[Value]] = {}
    workload: Workload
    checks: list[Check] = []
    plots: list[Plot] = []
    printed: list[Printed] = []
    quick: Quick = Quick()

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        names = [each.name for each in self.systems]
        known = {SYSTEM: names, **self.factors}
        if not names or len(set(names)) < len(names):
            raise ValueError("systems need names, each its own")
        if SYSTEM in self.factors:
            raise ValueError("the factor `system` is made of the systems")
        if empty := [name for name, values in known.items() if not values]:
            raise ValueError(f"the factor {empty[0]} has no values")
        named = [where for each in self.checks for where in _wheres(each)]
        named += [each.over for each in self.plots] + [each.at for each in self.printed]
        used = {name for where in named for name in where}
        used |= {each.along for each in self.checks if not isinstance(each, Ratio)}
        used |= {name for each in self.plots for name in (each.x, each.lines)}
        used |= set(self.quick.factors)
        if unknown := sorted(used - set(known)):
            raise ValueError(f"there is no factor {unknown[0]}: there are {', '.join(known)}")
        if strange := sorted(set(self.quick.systems or ()) - set(names)):
            raise ValueError(f"quick.systems names {strange[0]}, which is no system of the study")
        return self

    @model_validator(mode="after")
    def _metrics_exist(self) -> Self:
        for name in self.metrics():
            try:
                metrics.find(name)
            except CouldNotRun as error:
                raise ValueError(f"{error.what}: {error.hint}") from None
        return self

    def metrics(self) -> list[str]:
        """The metrics that its checks, plots and printed figures speak of."""
        return list(
            dict.fromkeys(
                [each.metric for each in (*self.checks, *self.printed)] + [each.y for each in self.plots],
            )
        )

    def shortened(self) -> Study:
        """The study that `--quick` runs."""
        changes: dict[str, Any] = {
            name: getattr(self.quick, name)
            for name in ("repetitions", "warm_up_seconds", "duration_seconds")
            if getattr(self.quick, name) is not None
        }
        if self.quick.systems is not None:
            changes["systems"] = [each for each in self.systems if each.name in self.quick.systems]
        return self.model_copy(update={**changes, "factors": {**self.factors, **self.quick.factors}})

    def plan(self) -> dict[str, Any]:
        """What decides the measurements: a folder whose plan differs holds another study."""
        wanted = {
            "name",
            "repetitions",
            "warm_up_seconds",
            "duration_seconds",
            "seed",
            "systems",
            "factors",
            "workload",
        }
        return self.model_dump(mode="json", include=wanted)


def read(path: Path) -> tuple[Study, str]:
    """The study of a file, and the file's text.

    Raises:
        CouldNotRun: it cannot be read or is no study; the message says where.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise CouldNotRun(f"cannot read {path}: {error.strerror}", "sojourn study list shows what there is") from error
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise CouldNotRun(f"{path} is larger than {DOCUMENT_BYTES_MAX:,} bytes", "give a study (TOML)")
    try:
        text = raw.decode()
        return Study.model_validate(tomllib.loads(text)), text
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the study"
        raise CouldNotRun(f"{path}: {place}: {first['msg']}", "docs/studies.md has the keys of a study") from None
    except ValueError as error:
        raise CouldNotRun(f"{path} is no study: {error}", "give a study (TOML); docs/studies.md has its keys") from None


def _wheres(check: Check) -> list[Where]:
    return [check.over] if isinstance(check, Monotone) else [check.left, check.right, check.over]
