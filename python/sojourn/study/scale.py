"""Scales a study: the whole, `--quick`, or as much as fits a time.

To fit a time, a study drops repetitions, shortens its points, and drops values of its factors that no check names, all
evenly; then also values that checks name. The floor has enough repetitions and long enough points to decide something,
and as many values as `--quick`. `given_up` describes what was dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sojourn.study.declarations import SYSTEM, SystemEntry, Value
from sojourn.study.document import Study
from sojourn.study.points import cells
from sojourn.study.runner import estimate_seconds

REPETITIONS_MIN = 3
"""The fewest repetitions for a meaningful interval."""
DECIDING_SECONDS_MIN = 1.0
"""The shortest points, unless the study's own are shorter."""
STEPS = 64
"""The number of steps between the floor and the whole study."""
_CHECKED = 0.5
"""The fraction of the scale at which all values named by checks are included."""
_Each = TypeVar("_Each")


def whole_seconds(study: Study) -> float:
    """The time of all points of a study."""
    return estimate_seconds(study, len(cells(study)) * study.repetitions)


def fitting(study: Study, seconds: float) -> Study:
    """As much of the study as fits the time; at least its floor."""

    def fits(extent: tuple[float, float]) -> bool:
        return whole_seconds(_scaled(study, *extent)) <= seconds

    steps = [step / STEPS for step in range(STEPS + 1)]
    # First the values named by checks, with the fewest and shortest points; then everything in step.
    path = [(_CHECKED * step, 0.0) for step in steps] + [(_CHECKED + (1 - _CHECKED) * step, step) for step in steps]
    values, points = next((extent for extent in reversed(path) if fits(extent)), path[0])
    # Where one more value does not fit, longer points may.
    points = next((step for step in reversed(steps) if step > points and fits((values, step))), points)
    return _scaled(study, values, points)


def floor(study: Study) -> Study:
    """The smallest version of the study that may decide something."""
    return _scaled(study, 0.0, 0.0)


def all_named(study: Study) -> Study:
    """The smallest version of the study with all systems and values that its checks name."""
    return _scaled(study, _CHECKED, 0.0)


def given_up(whole: Study, study: Study) -> list[str]:
    """Describes what was dropped or shortened; empty for the whole study."""
    said = []
    if study.repetitions < whole.repetitions:
        said.append(f"{study.repetitions} of {whole.repetitions} repetitions")
    if whole.kind == "workload" and study.duration_seconds < whole.duration_seconds:
        said.append(f"points of {study.duration_seconds:g} s instead of {whole.duration_seconds:g} s")
    for name in whole.names():
        there = whole.values(name)
        left = study.values(name) if name != SYSTEM else [each.name for each in study.systems]
        if len(left) < len(there) and name not in _led(whole):
            said.append(f"{len(left)} of {len(there)} values of {name}" if name != SYSTEM else _systems(left, there))
    if whole.model is not None and study.model is not None and study.model.half_width > whole.model.half_width:
        said.append(f"simulations to {study.model.half_width:.1%} instead of {whole.model.half_width:.1%}")
    return said


def evenly(values: Sequence[_Each], number: int, kept: Sequence[_Each]) -> list[_Each]:
    """Chooses this many values in order: those to keep, then repeatedly the middle of the widest gap."""
    chosen = sorted({values.index(each) for each in kept if each in values}) or [0]
    while len(chosen) < min(number, len(values)):
        others = [place for place in range(len(values)) if place not in chosen]
        chosen.append(max(others, key=lambda place: _gap(place, chosen, len(values))))
    return [values[place] for place in sorted(chosen)]


def _gap(place: int, chosen: Sequence[int], number: int) -> tuple[int, int]:
    """The distance to the nearest chosen value, and the width of the gap around it."""
    below = max((each for each in chosen if each < place), default=-1)
    above = min((each for each in chosen if each > place), default=number)
    return min(abs(place - each) for each in chosen), above - below


def _scaled(study: Study, values: float, points: float) -> Study:
    """The study between its floor (0) and its whole (1), separately in values and in points."""
    if values == points == 1:
        return study
    quick = study.shortened()
    changes: dict[str, object] = {
        "repetitions": _between(min(REPETITIONS_MIN, study.repetitions), study.repetitions, points),
        "systems": _thinned(study.systems, quick.systems, values, _checked_systems(study)),
        "listed": _thinned(study.listed, quick.listed, values, _checked_rows(study)) if study.listed else [],
        "factors": {
            name: _thinned(there, quick.factors[name], values, study.checked_values(name))
            for name, there in study.factors.items()
        },
    }
    if study.kind == "workload":
        shortest = min(max(quick.duration_seconds, DECIDING_SECONDS_MIN), study.duration_seconds)
        changes["duration_seconds"] = round(shortest ** (1 - points) * study.duration_seconds**points, 1)
        spent = quick.warm_up_seconds + points * (study.warm_up_seconds - quick.warm_up_seconds)
        changes["warm_up_seconds"] = round(spent, 1)
    if study.model is not None and quick.model is not None:
        width = quick.model.half_width ** (1 - points) * study.model.half_width**points
        changes["model"] = study.model.model_copy(update={"half_width": round(width, 4)})
    return study.model_copy(update=changes)


def _thinned(values: Sequence[_Each], quick: Sequence[_Each], share: float, checked: Sequence[_Each]) -> list[_Each]:
    kept = [each for each in quick if each in values]
    if len(kept) < len(quick):
        # The ends are the most informative where the shorter study has other values.
        kept = [values[0], values[-1]]
    wanted = [*kept, *(each for each in checked if each not in kept)]
    least, named = min(len(quick), len(values)), min(max(len(quick), len(wanted)), len(values))
    if share <= _CHECKED:
        number = _between(least, named, share / _CHECKED)
    else:
        number = _between(named, len(values), (share - _CHECKED) / (1 - _CHECKED))
    return evenly(values, number, wanted[:number])


def _checked_systems(study: Study) -> list[SystemEntry]:
    names = study.checked_values(SYSTEM)
    return sorted((each for each in study.systems if each.name in names), key=lambda each: names.index(each.name))


def _checked_rows(study: Study) -> list[dict[str, Value]]:
    return [row for row in study.listed if any(value in study.checked_values(name) for name, value in row.items())]


def _between(least: int, most: int, share: float) -> int:
    return round(least + share * (most - least))


def _led(whole: Study) -> set[str]:
    """Linked factors other than the first, which represents the row."""
    return set(list(whole.listed[0])[1:]) if whole.listed else set()


def _systems(left: Sequence[Value], there: Sequence[Value]) -> str:
    return "without " + ", ".join(str(each) for each in there if each not in left)
