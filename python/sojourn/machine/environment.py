"""The environment a run was measured in: figures without it are not comparable.

The engine looks, and every result that it prints holds the same object as `machine`; here it is made plain for tables
and for comparing runs.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from sojourn import __version__, engine

_OF_ONE_BOOT = "boot_id"
"""Tells recordings apart, not conditions: two runs of one machine may differ in it and be comparable."""


def machine() -> dict[str, Any]:
    """The machine and its kernel's settings as the engine sees them; what is missing is an object that says why."""
    return engine.run(["machine"])


def describe(seen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Our build and the machine, `seen` in a result or looked at now; what cannot be read says so."""
    return {
        "sojourn_version": __version__,
        "python_version": platform.python_version(),
        **plain(machine() if seen is None else seen),
    }


def plain(seen: Mapping[str, Any]) -> dict[str, Any]:
    """A result's `machine` with lists of strings for what is nested, and `unavailable: why` for what is missing."""
    return {name: _plain(name, value) for name, value in seen.items() if name != _OF_ONE_BOOT}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        if "unavailable" in value:
            return f"unavailable: {value['unavailable']}"
        return [f"{key} {each}" for key, each in value.items()]
    if name == "caches":
        return [_cache(each) for each in value]
    return value


def _cache(cache: Mapping[str, Any]) -> str:
    size = cache["size_bytes"] >> 10
    return f"L{cache['level']} {cache['kind']} {size}K, shared by cores {cache['shared_by']}"
