"""What else ran on the two cores while we measured: figures taken beside other work are that work's too."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sojourn.assessment.steps import Row
from sojourn.text import format

OTHERS_FRACTION_MAX = 0.15
"""Interrupts and kernel threads of the load itself take up to this share of the server's core."""
WAIT_FRACTION_MAX = 0.05


def warnings(rows: Sequence[Row]) -> list[str]:
    """Says how much of either core others used, where that was enough to move the figures."""
    found = []
    others = [
        row["server_core_busy_fraction"] - row["server_cpu_fraction"]
        for row in rows
        if row.get("server_core_busy_fraction") is not None and row.get("server_cpu_fraction") is not None
    ]
    if others and statistics.mean(others) > OTHERS_FRACTION_MAX:
        found.append(
            f"Other processes used {format.percent(statistics.mean(others))} of the server's core: the server can do "
            "more than this on a quiet machine."
        )
    waits = [row["generator_core_wait_fraction"] for row in rows if row.get("generator_core_wait_fraction") is not None]
    if waits and statistics.mean(waits) > WAIT_FRACTION_MAX:
        found.append(
            f"Other processes held the generator's core {format.percent(statistics.mean(waits))} of the time: response "
            "times include its lateness."
        )
    return found
