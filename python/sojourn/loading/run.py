"""Runs the engine once as a child process with all its records; none of this runs on the measured cores."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord, StreamsRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.steps import with_confidence
from sojourn.text import quantity

Tool = Literal["load", "replay"]
"""The engine's load-generating commands."""
Runner = Callable[[Sequence[str], engine.Progress | None], LoadResult]
"""Runs one of the commands with its options."""

INTERVALS_WANTED = 40
"""The number of intervals wanted per step: enough for batches longer than the correlation, few enough to cost nothing.
"""
INTERVAL_SECONDS_MAX = 1.0
_TICK_SECONDS = 0.1
_DURATION_DEFAULT = "10s"
_STEP_DEFAULT = "4s"
_PART_LENGTH = re.compile(r"\b(?:for|in)\s+(\S+?)\s*(?:,|$)")
"""Finds the length of a schedule's parts: `100/s for 10s, ramp to 1000/s in 30s`."""


def local(tool: Tool) -> Runner:
    """The engine's `tool` on this machine."""
    return run_load if tool == "load" else run_replay


def run_load(options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
    """Runs `sojourn-engine load` with the options; on Ctrl-C it ends, and the figures so far are returned.

    Raises:
        CouldNotRun: the engine could not start; the message is the engine's.
    """
    return _run("load", options, progress)


def behind(link: Sequence[str], tool: Tool) -> Runner:
    """Runs the engine's `tool` behind a network link with these options of `sojourn-engine link`."""

    def run(options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
        inside = [str(engine.path()), tool, *recorded(tool, options)]
        return with_confidence(LoadResult.of(engine.run(["link", *link, "--", *inside], RequestsRecord, progress)))

    return run


def run_replay(options: Sequence[str], progress: engine.Progress | None = None) -> LoadResult:
    """Runs `sojourn-engine replay`, like `run_load`."""
    return _run("replay", options, progress)


def _run(tool: Tool, options: Sequence[str], progress: engine.Progress | None) -> LoadResult:
    words = [tool, *recorded(tool, options)]
    cores = cores_of(options)
    if plays_streams(options):
        return LoadResult.of(engine.run(words, StreamsRecord, progress, quiet_cores=cores))
    return with_confidence(LoadResult.of(engine.run(words, RequestsRecord, progress, quiet_cores=cores)))


def recorded(tool: Tool, options: Sequence[str]) -> list[str]:
    """Adds the options that embed the run's records."""
    whole = [*options] if "--embed" in options else [*options, "--embed"]
    if option(options, "--interval") is None and not plays_streams(options):
        whole += ["--interval", f"{interval_seconds(shortest_step(tool, options)):g}s"]
    return whole


def shortest_step(tool: Tool, options: Sequence[str]) -> str | None:
    """The length of a run's shortest step; None if it is not an option, as for a log."""
    if tool == "replay":
        rates = option(options, "--rate") is not None
        return option(options, "--step") or _STEP_DEFAULT if rates else option(options, "--duration")
    schedule = option(options, "--schedule")
    lengths = _PART_LENGTH.findall(schedule) if schedule else []
    return min(lengths, key=_seconds, default=None) or option(options, "--duration") or _DURATION_DEFAULT


def interval_seconds(step: str | None) -> float:
    """The interval length of a step: tenths of a second for short ones, a second for others."""
    wanted = INTERVAL_SECONDS_MAX if step is None else _seconds(step) / INTERVALS_WANTED
    ticks = max(1, round(min(wanted, INTERVAL_SECONDS_MAX) / _TICK_SECONDS))
    return round(ticks * _TICK_SECONDS, 1)


def _seconds(text: str) -> float:
    return quantity.seconds(text)


def plays_streams(options: Sequence[str]) -> bool:
    """Returns true for options of film viewers: URLs of RTSP or of playlists, or --hls."""
    return any(word == "--hls" or names_film(word) for word in options)


def names_film(word: str) -> bool:
    """Returns true if a word is the URL of a film: by RTSP, or an HLS playlist."""
    path = re.split("[?#]", word, maxsplit=1)[0]
    return path.startswith("rtsp://") or (path.startswith(("http://", "https://")) and path.endswith(".m3u8"))


def cores_of(options: Sequence[str]) -> frozenset[int]:
    """The measured cores: the generator's and the server's, where named."""
    named = (option(options, "--core"), option(options, "--observe-core"))
    return frozenset(int(core) for core in named if core is not None and core.isdecimal())


def option(options: Sequence[str], name: str) -> str | None:
    """The value of an engine option if present: `--name VALUE` or `--name=VALUE`."""
    for index, word in enumerate(options):
        if word == name and index + 1 < len(options):
            return options[index + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return None


def seed_of(options: Sequence[str]) -> int:
    """The engine's seed.

    Raises:
        CouldNotRun: it is no number.
    """
    text = option(options, "--seed") or "1"
    if not text.isdecimal():
        raise CouldNotRun(f"--seed {text!r} is not a whole number", "--seed 1")
    return int(text)


def with_option(options: Sequence[str], name: str, value: str) -> list[str]:
    """The options with a new value for one of them."""
    return [*without_options(options, [name]), name, value]


def without_options(options: Sequence[str], names: Sequence[str]) -> list[str]:
    """The options without these, which have values."""
    kept, is_value = list[str](), False
    for word in options:
        if is_value:
            is_value = False
        elif word in names:
            is_value = True
        elif not word.startswith(tuple(f"{name}=" for name in names)):
            kept.append(word)
    return kept
