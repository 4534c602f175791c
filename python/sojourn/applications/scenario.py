"""Scenario files and recordings as the engine reads them, in full: what logs in, what one user does in an iteration."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.results.records import Record

Table = Mapping[str, JsonValue]
"""A table of the scenario's form (docs/scenarios.md)."""


class FlowTable(Record):
    """Requests one after another, with the weight of this alternative."""

    weight: float = 1.0
    request: list[dict[str, JsonValue]]


class Scenario(Record):
    """A scenario file with its names and methods, and its files by their absolute paths."""

    users: dict[str, JsonValue] = Field(default_factory=dict)
    values: dict[str, JsonValue] = Field(default_factory=dict)
    defaults: dict[str, JsonValue] = Field(default_factory=dict)
    login: list[dict[str, JsonValue]] = Field(default_factory=list)
    request: list[dict[str, JsonValue]] = Field(default_factory=list)
    flow: list[FlowTable] = Field(default_factory=list)

    @property
    def flows(self) -> list[FlowTable]:
        """The alternatives; requests without any are one."""
        return self.flow or ([FlowTable(request=self.request)] if self.request else [])

    @property
    def think(self) -> str | None:
        """The think time after requests that have none of their own, as it is written."""
        default = self.defaults.get("think")
        return None if default is None else str(default)

    @property
    def is_user_new(self) -> bool:
        """True if every iteration is a new user, with a login of its own."""
        return self.users.get("new") is True


@dataclass(frozen=True)
class Read:
    """A scenario and the doubts about it."""

    scenario: Scenario
    warnings: Sequence[str]


def read(path: Path, url: str) -> Read:
    """Reads TOML, JSON or a recording, to be made at that URL.

    Raises:
        CouldNotRun: there is no such file, or it is no scenario.
    """
    done = subprocess.run([str(engine.path()), "scenario", str(path), url], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    if done.returncode != 0:
        what, _, hint = done.stderr.strip().removeprefix("error: ").partition("\nhint: ")
        raise CouldNotRun(what, hint or "docs/scenarios.md says what a scenario file may have")
    warnings = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
    try:
        return Read(Scenario.model_validate_json(done.stdout), warnings)
    except ValidationError as error:
        raise CouldNotRun(f"{path}: the engine's scenario is not understood: {error}") from error
