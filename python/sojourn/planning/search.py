"""Finds the smallest value of one parameter that meets a target, or the largest load under which it is met.

Bisection on the parameter, with whatever evaluates fastest; then a long simulation has the last word. Where it does
not agree, the search goes on against a limit corrected by their ratio, so that the answer is right by simulation
even where the search's solver is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sojourn.planning.evaluation import Evaluation, Evaluator
from sojourn.planning.parameters import Parameter
from sojourn.planning.system_document import SystemDocument

REACH = 1024.0
"""How far from its present value a parameter is searched, up and down."""
PRECISION = 2e-3
"""Relative width at which a bisection ends."""
STEADY = 4
"""Steps of a ladder over which a metric must change for the climb to go on."""
CORRECTIONS_MAX = 6
"""Rounds of search and confirmation."""
SLACK = 0.02
"""A confirmed value may be this share below the limit: closer is within the noise."""

Change = Callable[[float], SystemDocument]


@dataclass(frozen=True)
class Found:
    """The value at which the target is met, or what is best where it cannot be."""

    value: float | None
    """None where no value meets the target."""
    searched_by: str
    """The solver of the search."""
    confirmed: Evaluation
    """By simulation, at the value; where there is none, of the best that can be reached."""
    best_at: float
    """The value that confirmed, or that came nearest."""


def smallest(evaluator: Evaluator, document: SystemDocument, parameter: Parameter, limit_seconds: float) -> Found:
    """The smallest value of a parameter that meets the limit, all else as it is."""

    def change(value: float) -> SystemDocument:
        return document.set(parameter.setting(value))

    if parameter.kind == "count":
        fewest, most = _counts(document, parameter)
        counts = [count for count in _ladder(int(REACH)) if fewest <= count <= most]
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
    """The same of a quantity or factor by the evaluator alone, for comparisons; None where no value meets the limit."""
    low, high = parameter.present / REACH, parameter.present * REACH
    value, met = _least(
        evaluator, lambda value: document.set(parameter.setting(value)), low, high, limit_seconds, rising=False
    )
    return value if met else None


def largest_traffic(evaluator: Evaluator, document: SystemDocument, limit_seconds: float) -> Found:
    """The largest factor on the traffic under which the limit is still met."""
    change = partial(_with_traffic, document)
    return _confirmed(evaluator, change, limit_seconds, lambda limit: _most_traffic(evaluator, change, limit))


def largest_traffic_unconfirmed(evaluator: Evaluator, document: SystemDocument, limit_seconds: float) -> float | None:
    """The same by the search's solver alone, for comparisons."""
    factor, met = _most_traffic(evaluator, partial(_with_traffic, document), limit_seconds)
    return factor if met else None


def _with_traffic(document: SystemDocument, factor: float) -> SystemDocument:
    return document.set(f"traffic={factor!r}")


def _most_traffic(evaluator: Evaluator, change: Change, limit: float) -> tuple[float, bool]:
    return _least(evaluator, change, 1 / REACH, REACH, limit, rising=True)


def _confirmed(
    evaluator: Evaluator, change: Change, limit_seconds: float, search: Callable[[float], tuple[float, bool]]
) -> Found:
    """Searches against a corrected limit until the simulation at the value found agrees with the true one."""
    corrected = limit_seconds
    kept: Found | None = None
    tried: list[float] = []
    for _ in range(CORRECTIONS_MAX):
        value, met = search(corrected)
        if any(abs(value - each) <= PRECISION * each for each in tried):
            break
        tried.append(value)
        searched_by = evaluator.evaluate(change(value)).by
        simulated = evaluator.confirm(change(value))
        found = Found(value if simulated.seconds <= limit_seconds else None, searched_by, simulated, value)
        if found.value is not None:
            kept = found
        if (
            simulated.seconds <= 0
            or (not met and found.value is None)
            or limit_seconds * (1 - SLACK) <= simulated.seconds <= limit_seconds
        ):
            break
        # A little stricter than the ratio says: otherwise the last rounds would stop just above the limit.
        if evaluator.loss_max is not None and simulated.unstable_station is None and math.isinf(simulated.seconds):
            searched = evaluator.loss_searched or 0.0
            evaluator.loss_searched = searched * (1 - SLACK / 2) * evaluator.loss_max / simulated.loss_probability
        else:
            corrected *= limit_seconds * (1 - SLACK / 2) / simulated.seconds
    evaluator.loss_searched = evaluator.loss_max
    return kept or found


def _counts(document: SystemDocument, parameter: Parameter) -> tuple[int, int]:
    """The fewest and the most that make a system.

    Fewer jobs in service than servers would leave some idle for ever, fewer places in all than in service some empty.
    """
    *_, name, key = parameter.path.split(".")
    station = document.stations.get(name, {})
    most = int(station.get("capacity", REACH)) if key == "r" else int(REACH)
    fewest = {"r": station.get("servers", 1), "capacity": station.get("r", station.get("servers", 1)), "queue": 0}
    return int(fewest.get(key, 1)), most


def _least(
    evaluator: Evaluator, change: Change, low: float, high: float, limit: float, *, rising: bool
) -> tuple[float, bool]:
    """Bisects for the end of the values that meet the limit: the smallest, or, where the metric rises, the largest."""

    def meets(value: float) -> bool:
        return evaluator.evaluate(change(value)).seconds <= limit

    good, bad = (low, high) if rising else (high, low)
    if not meets(good):
        return good, False
    if meets(bad):
        return bad, True
    while abs(good - bad) > PRECISION * max(good, bad):
        # The geometric mean where the ends are far apart: as many steps for every factor of ten.
        middle = math.sqrt(good * bad) if min(good, bad) > 0 else (good + bad) / 2
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good, True


def _first(evaluator: Evaluator, change: Change, counts: list[int], limit: float) -> tuple[float, bool]:
    """The first count that meets the limit; a metric need not fall with a count, so the ladder is climbed."""
    values: list[float] = []
    for index, count in enumerate(counts):
        values.append(evaluator.evaluate(change(count)).seconds)
        if values[-1] <= limit:
            below = range(counts[index - 1] + 1 if index else count, count)
            exact = next((each for each in below if evaluator.evaluate(change(each)).seconds <= limit), count)
            return float(exact), True
        if index > STEADY and max(values[-STEADY:]) - min(values[-STEADY:]) < PRECISION * values[-1]:
            # More places than are ever taken change nothing, and cost the exact solver dear.
            break
    best = min(range(len(values)), key=lambda index: values[index])
    return float(counts[best]), False


def _ladder(most: int) -> list[int]:
    """The powers of two and what is half-way between them, up to the most."""
    powers = [1 << power for power in range(most.bit_length())]
    return sorted({count for power in powers for count in (power, power + power // 2) if count <= most})
