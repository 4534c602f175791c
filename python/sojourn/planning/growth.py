"""Computes how long a system suffices if its traffic grows by a constant factor per year."""

from __future__ import annotations

import math
import re
from datetime import date, timedelta

from sojourn.failure import CouldNotRun
from sojourn.planning.answers import Growth
from sojourn.planning.system_document import SystemDocument
from sojourn.queueing import predict
from sojourn.text.quantity import NUMBER

DAYS_PER_YEAR = 365.25
YEARS_MAX = 200.0
"""The longest horizon; no growth rate lasts longer."""
_RATES = {"year": 1.0, "month": 12.0, "week": DAYS_PER_YEAR / 7}
_GROWTH = re.compile(rf"\s*\+?({NUMBER})\s*%\s*/\s*(\w+)\s*")


def parse_growth(text: str) -> float:
    """Parses a growth such as `30%/year` or `2%/month` into a factor per year.

    Raises:
        CouldNotRun: if it is malformed or not above zero.
    """
    match = _GROWTH.fullmatch(text)
    if match is None or match[2] not in _RATES or float(match[1]) <= 0:
        raise CouldNotRun(f"{text!r} is not a growth rate", f"write it as in 30%/year (per {', '.join(_RATES)})")
    return float((1 + float(match[1]) / 100) ** _RATES[match[2]])


def grow(
    document: SystemDocument, factor_per_year: float, start: date, traffic_factor_at_target: float | None
) -> Growth:
    """The dates on which the target is missed and on which the first station saturates.

    A closed system does not saturate strictly, because its users wait; from N* users on they must.
    """
    bottleneck, at_saturation = _saturation(document)
    return Growth(
        fraction_per_year=factor_per_year - 1,
        start=start.isoformat(),
        target_missed_on=_on(start, factor_per_year, traffic_factor_at_target),
        saturated_on=_on(start, factor_per_year, at_saturation),
        saturated_station=bottleneck,
        traffic_factor_at_target=traffic_factor_at_target,
        traffic_factor_at_saturation=at_saturation,
    )


def _saturation(document: SystemDocument) -> tuple[str | None, float | None]:
    """The station that open traffic saturates first, with the growth factor; for a closed class alone, N*."""
    prediction = predict(document.system, percentiles=False)
    bounds, users = prediction["bounds"], document.system.classes[0].users
    if bounds is not None and users is not None:
        return prediction["bottleneck"]["station"], bounds["saturation_users"] / users
    loads = {name: load for name, load in document.system.open_utilisations().items() if load > 0}
    first = max(loads, key=lambda name: loads[name], default=None)
    return (first, 1 / loads[first]) if first else (None, None)


def _on(start: date, factor_per_year: float, traffic_factor: float | None) -> str | None:
    if traffic_factor is None:
        return None
    years = math.log(traffic_factor) / math.log(factor_per_year)
    # A limit that is already exceeded has no future date.
    return start.isoformat() if years <= 0 else _date(start, years)


def _date(start: date, years: float) -> str | None:
    return None if years > YEARS_MAX else (start + timedelta(days=years * DAYS_PER_YEAR)).isoformat()
