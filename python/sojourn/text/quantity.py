"""Parses quantities with units: `200ms`, `100Mbit/s`, `2GiB`. A bare number is refused.

Decimal prefixes mean powers of 1000, binary ones (`KiB`) powers of 1024; there is no guessing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from sojourn.failure import CouldNotRun

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
BYTES = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
BYTES_PER_SECOND = {f"{unit}/s": factor for unit, factor in BYTES.items()}
BITS_PER_SECOND = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
"""A pattern of what `float` takes: one point at most, no sign and no exponent."""
_NUMBER_AND_UNIT = re.compile(rf"\s*({NUMBER})\s*([^\s0-9.]\S*)?\s*")
_NUMBER_AND_PERCENT = re.compile(rf"\s*({NUMBER})\s*(%?)\s*")


def seconds(text: str) -> float:
    return _parse(text, SECONDS, "a duration", "200ms")


def size_bytes(text: str) -> int:
    return round(_parse(text, BYTES, "a size", "2GiB"))


def bytes_per_second(text: str) -> int:
    """Parses a rate of reading or writing into byte/s."""
    return round(_parse(text, BYTES_PER_SECOND, "a rate", "20MiB/s"))


def bits_per_second(text: str) -> float:
    """Parses a bandwidth into bit/s."""
    return _parse(text, BITS_PER_SECOND, "a bandwidth", "100Mbit/s")


def fraction(text: str) -> float:
    """Parses a share from 0 to 1, such as `5%` or `0.05`."""
    match = _NUMBER_AND_PERCENT.fullmatch(text)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.inf
    if value > 1:
        raise CouldNotRun(f"{text!r} is not a share", "write it as in 2% or 0.02")
    return value


def _parse(text: str, units: Mapping[str, float], kind: str, example: str) -> float:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2] not in units:
        known = ", ".join(units)
        raise CouldNotRun(f"{text!r} is not {kind}", f"write a number and a unit, as in {example} (units: {known})")
    value = float(match[1]) * units[match[2]]
    if value <= 0:
        raise CouldNotRun(f"{text!r} is not {kind} above zero", f"for example {example}")
    return value
