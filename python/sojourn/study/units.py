"""Formats values of a factor on axes and in verdicts with the study's own unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sojourn.failure import CouldNotRun
from sojourn.study.declarations import Value
from sojourn.text import format, quantity

_DECIMAL_SIZES = ("kB", "KB", "MB", "GB")
_WRITERS: dict[str | None, Callable[[float], str]] = {
    "size": format.size,
    "decimal size": lambda value: f"{format.number(value / 1000)} kB",
    "time": format.seconds,
    "bandwidth": format.bandwidth,
    None: format.number,
}


def unit_of(values: Sequence[Value]) -> str | None:
    """The kind of all values: `size` (powers of 1,024), `decimal size`, `time` or `bandwidth`; else None."""
    units = {_unit_of(value) for value in values}
    # For 500 B and 5 kB the second tells which kilobyte is meant.
    if "decimal size" in units:
        units -= {"size"}
    return units.pop() if len(units) == 1 else None


def writer(values: Sequence[Value]) -> Callable[[float], str]:
    """A function that formats numbers like the values."""
    return _WRITERS[unit_of(values)]


def _unit_of(value: Value) -> str | None:
    parsers = {"size": quantity.size_bytes, "time": quantity.seconds, "bandwidth": quantity.bits_per_second}
    for name, parse in parsers.items():
        try:
            if isinstance(value, str) and parse(value) > 0:
                return "decimal size" if name == "size" and value.strip("0123456789. ") in _DECIMAL_SIZES else name
        except CouldNotRun:
            continue
    return None
