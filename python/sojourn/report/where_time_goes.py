"""Where the time goes: the resource that was full first, and every resource at every load, as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.report.markup import Markup
from sojourn.report.tables import absent, grid

LOADS_SHOWN_MAX = 6
"""More columns do not fit; those left out are the lowest loads, and those far above where something was full."""
_TITLE = "Where the time goes"


def where_time_goes(found: Mapping[str, Any] | None) -> Markup:
    """The section's sentence and table."""
    # What is found is worded with this package's formats, so it cannot be imported before them.
    from sojourn.loading.saturation import Saturation, written

    if not found:
        return absent("table-saturation", _TITLE, "the server was not looked at (--probe)")
    saturation = Saturation.of_json(found)
    # Where nothing was full, the highest loads came nearest to it.
    first = saturation.loads.index(saturation.at) if saturation.at is not None else len(saturation.loads)
    begin = max(0, min(first, len(saturation.loads) - LOADS_SHOWN_MAX))
    shown = range(begin, min(len(saturation.loads), begin + LOADS_SHOWN_MAX))
    rows = [
        (
            use.name,
            *(f"{written(use, use.values[place])}{' ●' if use.is_saturated(place) else ''}" for place in shown),
            use.criterion,
        )
        for use in saturation.uses
    ]
    head = ("Resource", *(saturation.loads[place] for place in shown), "Full from")
    note = "● full. Memory stalls are the whole machine's; the cause stands above its effect."
    return grid("table-saturation", _TITLE, [head], rows, note, finding=saturation.sentence)
