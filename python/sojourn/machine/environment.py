"""The environment a run was measured in: figures without it are not comparable.

The engine looks, and every result that it prints holds the same object as `machine`; here it is made plain for tables
and for comparing runs.
"""

from __future__ import annotations

import platform

from sojourn import __version__, engine
from sojourn.engine.results import Cache, Machine, Unavailable

Environment = dict[str, object]
"""Figures, texts and lists of texts by name."""

_OF_ONE_BOOT = "boot_id"
"""Tells recordings apart, not conditions: two runs of one machine may differ in it and be comparable."""


def machine() -> Machine:
    """The machine and its kernel's settings as the engine sees them; what is missing is an object that says why."""
    return engine.run(["machine"], Machine)


def describe(seen: Machine | None = None) -> Environment:
    """Our build and the machine, `seen` in a result or looked at now; what cannot be read says so."""
    return {
        "sojourn_version": __version__,
        "python_version": platform.python_version(),
        **plain(machine() if seen is None else seen),
    }


def plain(seen: Machine) -> Environment:
    """A result's `machine` with lists of strings for what is nested, and `unavailable: why` for what is missing."""
    return {name: _plain(value) for name, value in seen if name in seen.model_fields_set and name != _OF_ONE_BOOT}


def _plain(value: object) -> object:
    if isinstance(value, Unavailable):
        return f"unavailable: {value.unavailable}"
    if isinstance(value, dict):
        return [f"{key} {each}" for key, each in value.items()]
    if isinstance(value, list):
        return [_cache(each) if isinstance(each, Cache) else each for each in value]
    return value


def _cache(cache: Cache) -> str:
    return f"L{cache.level} {cache.kind} {cache.size_bytes >> 10}K, shared by cores {cache.shared_by}"
