"""One load run by the engine as a child, with all its records; nobody here runs on the cores that are measured."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn import engine, quantity
from sojourn.loading.result import LoadResult

INTERVALS_WANTED = 40
"""Enough for batches that are long beside what hangs together, and few enough to cost nothing."""
INTERVAL_SECONDS_MAX = 1.0
_TICK_SECONDS = 0.1
_DURATION_DEFAULT = "10s"


def run_load(options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
    """Runs `sojourn-engine load` with the options; Ctrl-C ends it, and what was measured comes back.

    Raises:
        CouldNotRun: the engine could not begin; the message is the engine's.
    """
    return LoadResult.of(engine.run(["load", *recorded(options)], progress, quiet_cores=cores_of(options)))


def recorded(options: Sequence[str]) -> list[str]:
    """The options with those that embed the run's records."""
    whole = [*options] if "--embed" in options else [*options, "--embed"]
    if option(options, "--interval") is None:
        whole += ["--interval", f"{interval_seconds(option(options, '--duration')):g}s"]
    return whole


def interval_seconds(duration: str | None) -> float:
    """How long the intervals of a run should be: tenths of a second for short runs, a second for others."""
    wanted = quantity.seconds(duration or _DURATION_DEFAULT) / INTERVALS_WANTED
    ticks = max(1, round(min(wanted, INTERVAL_SECONDS_MAX) / _TICK_SECONDS))
    return round(ticks * _TICK_SECONDS, 1)


def cores_of(options: Sequence[str]) -> frozenset[int]:
    """The cores that the run measures on: the generator's and the server's, where they are named."""
    named = (option(options, "--core"), option(options, "--observe-core"))
    return frozenset(int(core) for core in named if core is not None and core.isdecimal())


def option(options: Sequence[str], name: str) -> str | None:
    """The value of an engine's option, if it is given: `--name VALUE` or `--name=VALUE`."""
    for index, word in enumerate(options):
        if word == name and index + 1 < len(options):
            return options[index + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return None


def with_option(options: Sequence[str], name: str, value: str) -> list[str]:
    """The options with this value of one, whatever it was."""
    kept, is_value = list[str](), False
    for word in options:
        if is_value:
            is_value = False
        elif word == name:
            is_value = True
        elif not word.startswith(name + "="):
            kept.append(word)
    return [*kept, name, value]
