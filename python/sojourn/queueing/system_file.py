"""Writes system files: converts nested dictionaries to TOML in a readable order.

The keys are those of the schema in `docs/models.md`; the reader validates them, not this module. `time`, `size`,
`time_per_byte` and `rate` format quantities with a unit, so that a file explains itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.text import toml
from sojourn.text.toml import Table

SIZE_GROUPS = 60
LINE_LENGTH = 110

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))
_UNIT_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def write(system: Table, comment: str = "") -> str:
    """The text of a system file.

    Args:
        system: `name`, `description`, `document`, `stations`, `classes` as in the schema. A key `comment` in any table
            is written above it.
        comment: what the file begins with; lines without the mark.
    """
    parts = [*_commented(comment)]
    parts += [f"{key} = {_value(system[key])}" for key in ("name", "description") if system.get(key)]
    if "document" in system:
        parts += _table("document", system["document"])
    for kind in ("stations", "classes"):
        for name, table in system[kind].items():
            parts += _table(f"{kind}.{toml.key(name)}", table)
    return "\n".join(parts) + "\n"


def time(seconds: float) -> str:
    """A time in the largest unit that keeps it at least one, such as `21.55ms`."""
    return _scaled(seconds)


def time_per_byte(seconds: float) -> str:
    """A time per byte, such as `0.4851ns/B`."""
    return f"{_number(seconds * 1e9)}ns/B"


def size(size_bytes: float) -> str:
    """A size in bytes."""
    return f"{_number(size_bytes)}B"


def rate(per_second: float) -> str:
    """A rate, such as `40/s`."""
    return f"{_number(per_second)}/s"


def bandwidth(bits_per_second: float) -> str:
    """A bandwidth, such as `1.5Mbit/s`."""
    return f"{_number(bits_per_second / 1e6)}Mbit/s"


def empirical_sizes(sizes_bytes: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Table:
    """The distribution of measured sizes, in at most `SIZE_GROUPS` groups that each keep their mean.

    Args:
        sizes_bytes: a size per request; shape (requests,).
        weights: how often each was asked for; once unless said. Same shape.
    """
    counts = np.ones_like(sizes_bytes) if weights is None else weights
    # Groups of equal width in the logarithm, so that the few large documents form groups of their own.
    logarithms = np.log(np.maximum(sizes_bytes, 1.0))
    edges = np.linspace(logarithms.min(), logarithms.max(), SIZE_GROUPS)
    group = np.digitize(logarithms, edges)
    members = [group == index for index in np.unique(group)]
    return {
        "law": "empirical",
        "values": [size(round(np.average(sizes_bytes[own], weights=counts[own]))) for own in members],
        "weights": [round(float(counts[own].sum() / counts.sum()), 6) for own in members],
    }


_MEASURED = "Measured at {low} to {high}."
_MEASURED_READ = re.compile(r"Measured at ([0-9.e+]+)/s to ([0-9.e+]+)/s\.")


def measured(low_per_second: float, high_per_second: float) -> str:
    """The `description` of a system fitted to measurements between these rates; see `measured_range`."""
    return _MEASURED.format(low=f"{low_per_second:.4g}/s", high=f"{high_per_second:.4g}/s")


def measured_range(description: str) -> tuple[float, float] | None:
    """The rates between which a system was measured, in requests/s; None if its description does not tell."""
    found = _MEASURED_READ.search(description)
    return None if found is None else (float(found[1]), float(found[2]))


def _table(name: str, table: Table) -> list[str]:
    # Nested tables are written inline, except the routes of a class, which are long.
    parts = ["", *_commented(table.get("comment", "")), f"[{name}]"]
    below: list[str] = []
    for route in table.get("routes", ()):
        below += ["", f"[[{name}.routes]]", *_assignments(route)]
    return parts + _assignments({key: value for key, value in table.items() if key != "routes"}) + below


def _assignments(table: Table) -> list[str]:
    return [f"{toml.key(key)} = {_value(value)}" for key, value in table.items() if key != "comment"]


def _value(value: object) -> str:
    return toml.inline(value, _number, _list)


def _list(texts: Sequence[str]) -> str:
    line = toml.one_line(texts)
    if len(line) <= LINE_LENGTH:
        return line
    lines = [""]
    for text in texts:
        if lines[-1] and len(lines[-1]) + len(text) > LINE_LENGTH:
            lines.append("")
        lines[-1] += f"{'' if lines[-1] else '    '}{text}, "
    return "[\n" + "\n".join(each.rstrip() for each in lines) + "\n]"


def _commented(text: str) -> list[str]:
    return [f"# {line}".rstrip() for line in text.splitlines()]


def _scaled(seconds: float) -> str:
    unit = next(unit for bound, unit in _TIMES if seconds >= bound) if seconds > 0 else "s"
    if seconds < 0:
        return "-" + _scaled(-seconds)
    return f"{_number(seconds / _UNIT_SECONDS[unit])}{unit}"


def _number(value: float) -> str:
    return f"{value:.9g}"
