"""A study's TOML file, validated, with the shorter study of `--quick`.

Factors are crossed with each other and with the systems; rows of `listed` set several factors at once. Each point is
one of `[workload]` (a server is loaded), `[model]` (a system file is solved) or `[program]` (a program runs and prints
figures). A workload may have a model or a program beside it: systems with a solver belong to the model, those with a
command to the program, so that predictions are compared with measurements.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from sojourn.failure import CouldNotRun
from sojourn.study.declarations import (
    SYSTEM,
    Check,
    Crossing,
    Fit,
    FixedPart,
    Model,
    Monotone,
    Plot,
    Printed,
    Program,
    Quick,
    Ratio,
    SystemEntry,
    Value,
    Workload,
    with_explanations,
)
from sojourn.study.differences import differences
from sojourn.study.figures import Figure, find
from sojourn.text.toml import read_text

_KINDS = ("workload", "model", "program")
_PLANNED = ("repetitions", "warm_up_seconds", "duration_seconds", "seed", "log", "factors", "listed")
"""The keys that determine the measurements, besides the systems and their tables."""
_MARKS = ("tried", "until_decided")
"""Flags that a plan contains only when set."""


class Study(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    source: str
    question: str
    differs: str | None = None
    """Differences from the source's experiment that a reader must know."""
    repetitions: int = Field(default=5, ge=1)
    warm_up_seconds: float = Field(default=2.0, ge=0)
    duration_seconds: float = Field(default=10.0, gt=0)
    point_seconds: float | None = Field(default=None, gt=0)
    """The approximate duration of a point, where it does not follow from the times above: for most programs, and loads
    that end by themselves.
    """
    seed: int = Field(default=1, ge=0)
    log: str = "example"
    """The access log for replays and programs: a path, or the example log."""
    systems: list[SystemEntry]
    factors: dict[str, list[Value]] = {}
    listed: list[dict[str, Value]] = []
    """Values that belong together: each row sets several factors."""
    workload: Workload | None = None
    model: Model | None = None
    program: Program | None = None
    checks: list[Check] = []
    plots: list[Plot] = []
    printed: list[Printed] = []
    fits: list[Fit] = []
    quick: Quick = Quick()
    tried: bool = False
    """Set if it is only a trial run, as with `--quick`: it gives no verdict."""
    until_decided: bool = False
    """Set if open findings are repeated, as with a budget: the checks of the points then share the error probability.
    """

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        names = [each.name for each in self.systems]
        if not names or len(set(names)) < len(names):
            raise ValueError("systems need distinct names")
        self._one_kind()
        known = self._known()
        if empty := [name for name, values in known.items() if not values]:
            raise ValueError(f"the factor {empty[0]} has no values")
        checks = with_explanations(self.checks)
        named = [where for each in checks for where in each.wheres]
        named += [each.over for each in self.plots] + [each.over for each in self.fits]
        named += [each.at for each in self.printed] + [each.only for each in self.systems]
        used = {name for where in named for name in where}
        used |= {each.along for each in checks if isinstance(each, Monotone | Crossing | FixedPart)}
        used |= {each.along for each in self.fits}
        used |= {name for each in self.plots for name in each.by}
        used |= set(self.quick.factors)
        if self.model is not None and self.model.fitted is not None:
            used |= {*self.model.fitted.at, *self.model.fitted.same}
        if unknown := sorted(used - set(known)):
            raise ValueError(f"there is no factor {unknown[0]}: there are {', '.join(known)}")
        for name in {each.x for each in self.plots} - set(known):
            try:
                self.figure(name)
            except CouldNotRun:
                message = f"there is no factor {name}, nor a metric: factors are {', '.join(known)}"
                raise ValueError(message) from None
        if strange := sorted(set(self.quick.systems or ()) - set(names)):
            raise ValueError(f"quick.systems names {strange[0]}, which is not a system of the study")
        return self

    @model_validator(mode="after")
    def _metrics_exist(self) -> Self:
        for name in self.metrics():
            try:
                self.figure(name)
            except CouldNotRun as error:
                raise ValueError(f"{error.what}: {error.hint}") from None
        return self

    def _one_kind(self) -> None:
        kinds = self._kinds
        if len(kinds) != 1 and kinds not in (["workload", "model"], ["workload", "program"]):
            raise ValueError(
                f"a study has one of {', '.join(_KINDS)}, or a workload and the model or the program of it"
            )
        solved = [each.name for each in self.systems if each.solver is not None]
        others = [each.name for each in self.systems if each.solver is None]
        if (self.model is None) != (not solved):
            raise ValueError("a study with a model has systems with a solver, others none")
        if strange := sorted({each.of for each in self.systems if each.of is not None} - set(others)):
            raise ValueError(f"a model is of {strange[0]}, which is not a system that is loaded")
        if self.model is not None and self.model.fitted is not None and self.model.arrivals is None:
            raise ValueError(
                "a fitted parameter needs the arrivals of the load that tells it: give the model `arrivals`"
            )
        if self.model is not None and self.model.arrivals is not None and self.workload is None:
            raise ValueError("the arrivals of a model are those of a workload beside it")
        if kinds == ["model"] and others:
            raise ValueError(f"the system {others[0]} of a study with a model has no solver")
        if self.model is not None and self.workload is not None and not others:
            raise ValueError("a workload needs a system that is loaded: one without a solver")
        commands = [bool(each.run) for each in self.systems]
        if kinds == ["program"] and not all(commands):
            raise ValueError(f"the system {self.systems[commands.index(False)].name} has no command: give it `run`")
        if kinds == ["workload", "program"] and len(set(commands)) < 2:
            raise ValueError("a workload beside a program needs systems with a command, `run`, and without one")

    def _known(self) -> dict[str, list[Value]]:
        """The factors with their values, by name."""
        rows = self.listed
        if any(row.keys() != rows[0].keys() for row in (*rows, *(self.quick.listed or ()))):
            raise ValueError("all rows of `listed` name the same factors")
        together = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        if twice := sorted({SYSTEM} & (together.keys() | self.factors.keys()) | together.keys() & self.factors.keys()):
            raise ValueError(f"the factor {twice[0]} is there already; `system` is made of the systems")
        return {SYSTEM: [each.name for each in self.systems], **together, **self.factors}

    @property
    def kind(self) -> str:
        """The kind of its points, or of those that take longest: `workload`, `model` or `program`."""
        return self._kinds[0]

    @property
    def _kinds(self) -> list[str]:
        return [name for name in _KINDS if getattr(self, name) is not None]

    @property
    def linked(self) -> frozenset[str]:
        """Factors whose values belong together."""
        return frozenset(self.listed[0] if self.listed else ())

    @property
    def takes_log(self) -> bool:
        """Returns true if the workload depends on an access log."""
        asked = self.workload or self.program
        words = [word for each in self.systems for word in each.run] if self.program is not None else []
        if self.workload is not None and self.workload.log is not None:
            return False
        replays = self.workload is not None and bool(self.workload.replay)
        of_log = asked is not None and asked.files == "log"
        return replays or of_log or any("{log}" in word for word in words)

    def values(self, factor: str) -> list[Value]:
        """The distinct values of a factor in order of declaration."""
        return list(dict.fromkeys(self._known()[factor]))

    def checked_values(self, factor: str) -> list[Value]:
        """The values of a factor that checks name or whose ends they compare, most often named first."""
        values = self.values(factor)
        named = Counter(value for check in self.checks for value in check.named(factor))
        named.update(end for check in self.checks if check.goes_along(factor) for end in (values[0], values[-1]))
        return [value for value, _ in named.most_common() if value in values]

    def names(self) -> list[str]:
        """The names of all factors, the system first."""
        return list(self._known())

    def metrics(self) -> list[str]:
        """The metrics used by its checks, plots and printed figures."""
        checks = with_explanations(self.checks)
        of_checks = [each.metric for each in checks]
        two_sided = [each for each in checks if isinstance(each, Ratio | Crossing)]
        of_checks += [each.right_metric for each in two_sided if each.right_metric is not None]
        factors = self._known()
        of_plots = [name for each in self.plots for name in (*each.metrics, each.x) if name not in factors]
        of_printed = [each.metric for each in self.printed] + [each.metric for each in self.fits]
        return list(dict.fromkeys([*of_checks, *of_printed, *of_plots]))

    def figure(self, name: str) -> Figure:
        """Looks a metric of this study up.

        Raises:
            CouldNotRun: no such metric; the hint lists them.
        """
        return find(name, self.model, self.program, is_loaded=self.workload is not None)

    def system(self, name: object) -> SystemEntry:
        """Looks a system up by name."""
        return next(each for each in self.systems if each.name == name)

    def is_program(self, system: SystemEntry) -> bool:
        """Returns true if the system is a program that prints figures, not a server."""
        return self.program is not None and bool(system.run)

    def shortened(self) -> Study:
        """The study of `--quick`."""
        changes: dict[str, object] = {
            name: getattr(self.quick, name)
            for name in ("repetitions", "warm_up_seconds", "duration_seconds", "point_seconds", "listed")
            if getattr(self.quick, name) is not None
        }
        if self.quick.systems is not None:
            changes["systems"] = [each for each in self.systems if each.name in self.quick.systems]
        if self.quick.half_width is not None and self.model is not None:
            changes["model"] = self.model.model_copy(update={"half_width": self.quick.half_width})
        return self.model_copy(update={**changes, "tried": True, "factors": {**self.factors, **self.quick.factors}})

    def planned(self, plan: Mapping[str, object]) -> Study:
        """The part of this study in a folder's plan.

        Raises:
            CouldNotRun: the plan belongs to another study.
        """
        try:
            part = {name: plan[name] for name in _PLANNED}
            part |= {name: plan.get(name, False) for name in _MARKS}
            part["systems"] = _SYSTEMS.validate_python(plan["systems"])
            part |= {kind: type(getattr(self, kind)).model_validate(plan[kind]) for kind in self._kinds}
        except (KeyError, ValidationError):
            part = {}
        found = self.model_copy(update=part)
        if differences(plan, found.plan()):
            raise CouldNotRun(f"the plan is not of the study {self.name}", "run the study again")
        return found

    def plan(self) -> dict[str, object]:
        """The keys that determine the measurements: a folder with a different plan holds another study."""
        marks = {name for name in _MARKS if getattr(self, name)}
        return self.model_dump(mode="json", include={"name", *_PLANNED, "systems", *self._kinds, *marks})


_SYSTEMS = TypeAdapter(list[SystemEntry])


def parsed(text: str) -> Study:
    """Parses the text of a study; a ValueError describes the first mistake."""
    return Study.model_validate(tomllib.loads(text))


def read(path: Path) -> tuple[Study, str]:
    """Reads a study's file; returns the study and the text.

    Raises:
        CouldNotRun: it cannot be read or is not a valid study; the message says where.
    """
    text = read_text(path, "give a study (TOML); sojourn study list shows what there is")
    try:
        return parsed(text), text
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the study"
        raise CouldNotRun(f"{path}: {place}: {first['msg']}", "docs/studies.md has the keys of a study") from None
    except ValueError as error:
        raise CouldNotRun(
            f"{path} is not a study: {error}", "give a study (TOML); docs/studies.md has its keys"
        ) from None
