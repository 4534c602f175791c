"""The environment of a run, without which its figures cannot be compared.

The engine inspects the machine and includes the same object as `machine` in every result; this module flattens it for
tables and comparisons.
"""

from __future__ import annotations

import platform

from sojourn import __version__, engine
from sojourn.engine.results import Cache, Machine, Unavailable

Environment = dict[str, object]
"""Values (numbers, texts, lists of texts) by name."""

_OF_ONE_BOOT = "boot_id"
"""Identifies a boot of the machine, not its configuration: runs with different values may still be comparable."""


def machine() -> Machine:
    """The engine's description of the machine and its kernel settings; a missing value is an object with the reason."""
    return engine.run(["machine"], Machine)


def describe(seen: Machine | None = None) -> Environment:
    """Describes our build and the machine (`seen` in a result, or now); an unreadable value holds the reason."""
    return {
        "sojourn_version": __version__,
        "python_version": platform.python_version(),
        **plain(machine() if seen is None else seen),
    }


def plain(seen: Machine) -> Environment:
    """Flattens a result's `machine`: nested values become lists of strings, missing ones `unavailable: why`."""
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
