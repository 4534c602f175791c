"""Finds the smallest value of a parameter that meets a target, or the largest load within it.

It bisects on the parameter with the fastest evaluator. Unless that is exact, a long simulation confirms. If the two
disagree, the search continues with a limit corrected by their ratio, so that the answer is right by simulation even if
the search's solver is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sojourn.planning.counts import valid_counts
from sojourn.planning.evaluation import Evaluation, Evaluator
from sojourn.planning.parameters import Parameter
from sojourn.planning.system_document import SystemDocument

REACH = 1024.0
"""The factor around the present value within which a parameter is searched."""
PRECISION = 2e-3
"""The relative width at which bisection ends."""
STEADY = 4
"""The climb over counts ends once the metric has not changed for this many steps."""
CORRECTIONS_MAX = 6
"""The most rounds of search and confirmation."""
SLACK = 0.02
"""A confirmed value may be this share below the limit; anything closer is noise."""

Change = Callable[[float], SystemDocument]


@dataclass(frozen=True)
class Found:
    """The value at which the target is met, or the best value if it cannot be."""

    value: float | None
    """None if no value meets the target."""
    searched_by: str
    """The solver of the search."""
    confirmed: Evaluation
    """The confirmed evaluation at the value, or at the best one."""
    best_at: float
    """The confirmed value, or the nearest to the target."""


def smallest(evaluator: Evaluator, document: SystemDocument, parameter: Parameter, limit_seconds: float) -> Found:
    """The smallest value of a parameter that meets the limit, with all others unchanged."""

    def change(value: float) -> SystemDocument:
        return document.set(parameter.setting(value))

    if parameter.kind == "count":
        valid = valid_counts(document, parameter)
        most = min(valid.most, int(max(REACH, parameter.present)))
        counts = sorted({valid.fewest, *(count for count in _ladder(most) if count in valid), most})
        return _confirmed(evaluator, change, limit_seconds, lambda limit: _first(evaluator, change, counts, limit))
    low, high = parameter.present / REACH, parameter.present * REACH
    if parameter.kind == "fraction":
        low, high = 0.0, 1.0
    return _confirmed(
        evaluator, change, limit_seconds, lambda limit: _least(evaluator, change, low, high, limit, rising=False)
    )


def smallest_unconfirmed(
    evaluator: Evaluator, document: SystemDocument, parameter: Parameter, limit_seconds: float
) -> float | None:
    """As `smallest` without confirmation, for quantities and factors; None if no value meets the limit."""
    low, high = parameter.present / REACH, parameter.present * REACH
    value, met = _least(
        evaluator, lambda value: document.set(parameter.setting(value)), low, high, limit_seconds, rising=False
    )
    return value if met else None


def largest_traffic(evaluator: Evaluator, document: SystemDocument, limit_seconds: float) -> Found:
    """The largest traffic factor within the limit."""
    change = partial(_with_traffic, document)
    return _confirmed(evaluator, change, limit_seconds, lambda limit: _most_traffic(evaluator, change, limit))


def largest_traffic_unconfirmed(evaluator: Evaluator, document: SystemDocument, limit_seconds: float) -> float | None:
    """As `largest_traffic` without confirmation, for comparisons."""
    factor, met = _most_traffic(evaluator, partial(_with_traffic, document), limit_seconds)
    return factor if met else None


def _with_traffic(document: SystemDocument, factor: float) -> SystemDocument:
    return document.set(f"traffic={factor!r}")


def _most_traffic(evaluator: Evaluator, change: Change, limit: float) -> tuple[float, bool]:
    return _least(evaluator, change, 1 / REACH, REACH, limit, rising=True)


def _confirmed(
    evaluator: Evaluator, change: Change, limit_seconds: float, search: Callable[[float], tuple[float, bool]]
) -> Found:
    """Repeats the search with a corrected limit until the confirmation of its result agrees with the true limit."""
    corrected = limit_seconds
    kept: Found | None = None
    tried: list[float] = []
    for _ in range(CORRECTIONS_MAX):
        value, met = search(corrected)
        if any(abs(value - each) <= PRECISION * each for each in tried):
            break
        tried.append(value)
        searched_by = evaluator.evaluate(change(value)).by
        confirmed = evaluator.confirm(change(value))
        found = Found(value if confirmed.seconds <= limit_seconds else None, searched_by, confirmed, value)
        if found.value is not None:
            kept = found
        if (
            confirmed.seconds <= 0
            or (not met and found.value is None)
            or limit_seconds * (1 - SLACK) <= confirmed.seconds <= limit_seconds
        ):
            break
        corrected = next_limit(evaluator, confirmed, corrected, limit_seconds)
    evaluator.loss_searched = evaluator.loss_max
    return kept or found


def next_limit(evaluator: Evaluator, confirmed: Evaluation, corrected: float, limit_seconds: float) -> float:
    """The limit of the next search, after a confirmation that disagrees with a search within `corrected`.

    If too much was lost, the next search has a lower limit on losses instead, until the caller restores it.
    """
    # Slightly stricter than the ratio, because otherwise the last rounds would stop just above the limit.
    if evaluator.loss_max is not None and confirmed.unstable_station is None and math.isinf(confirmed.seconds):
        searched = evaluator.loss_searched or 0.0
        evaluator.loss_searched = searched * (1 - SLACK / 2) * evaluator.loss_max / confirmed.loss_probability
        return corrected
    return corrected * limit_seconds * (1 - SLACK / 2) / confirmed.seconds


def _least(
    evaluator: Evaluator, change: Change, low: float, high: float, limit: float, *, rising: bool
) -> tuple[float, bool]:
    """Bisects for the boundary of the values that meet the limit: the smallest, or the largest if the metric rises."""

    def meets(value: float) -> bool:
        return evaluator.evaluate(change(value)).seconds <= limit

    good, bad = (low, high) if rising else (high, low)
    if not meets(good):
        return good, False
    if meets(bad):
        return bad, True
    while abs(good - bad) > PRECISION * max(good, bad):
        # The geometric mean if the ends are far apart: equally many steps per factor of ten.
        middle = math.sqrt(good * bad) if min(good, bad) > 0 else (good + bad) / 2
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good, True


def _first(evaluator: Evaluator, change: Change, counts: list[int], limit: float) -> tuple[float, bool]:
    """The first count that meets the limit; the metric may rise with a count, so it climbs a ladder."""
    values: list[float] = []
    for index, count in enumerate(counts):
        values.append(evaluator.evaluate(change(count)).seconds)
        if values[-1] <= limit:
            below = range(counts[index - 1] + 1 if index else count, count)
            exact = next((each for each in below if evaluator.evaluate(change(each)).seconds <= limit), count)
            return float(exact), True
        if index > STEADY and max(values[-STEADY:]) - min(values[-STEADY:]) < PRECISION * values[-1]:
            # More places than are ever taken change nothing but make the exact solver expensive.
            break
    best = min(range(len(values)), key=lambda index: values[index])
    return float(counts[best]), False


def _ladder(most: int) -> list[int]:
    """The powers of two and the midpoints between them, up to the maximum."""
    powers = [1 << power for power in range(most.bit_length())]
    return sorted({count for power in powers for count in (power, power + power // 2) if count <= most})
