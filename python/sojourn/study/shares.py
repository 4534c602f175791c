"""Divides a time among all studies equally; those that need less leave the rest to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from sojourn.study import scale
from sojourn.study.document import Study

_ROUNDS = 40
"""The number of bisection steps that find the level."""


@dataclass(frozen=True)
class Share:
    """A study's share of the time, and the version of the study that fits it."""

    study: Study
    seconds: float
    """The time limit; 0 if the study is left out."""
    needs_seconds: float
    """The estimated time of the points to measure."""
    left_out: Sequence[str]
    """Parts of the whole study that were left out."""


def shared_out(studies: Sequence[Study], seconds: float) -> list[Share]:
    """Divides a time among the studies, in their order.

    No study gets less than the values named by its checks need, while there is time for that; otherwise none gets less
    than its floor. If even the floors take longer, the longest studies are left out, because a truncated study decides
    nothing.
    """
    wholes = [scale.whole_seconds(each) for each in studies]
    floors = [scale.whole_seconds(scale.all_named(each)) for each in studies]
    if sum(floors) > seconds:
        floors = [scale.whole_seconds(scale.floor(each)) for each in studies]
    floors = [min(pair) for pair in zip(floors, wholes, strict=True)]
    kept = _that_fit(floors, seconds)
    level = _level([floors[place] for place in kept], [wholes[place] for place in kept], seconds)
    found = []
    for place, (study, least, whole) in enumerate(zip(studies, floors, wholes, strict=True)):
        share = max(least, min(whole, level)) if place in kept else 0.0
        fit = scale.fitting(study, share)
        found.append(Share(fit, share, scale.whole_seconds(fit), scale.given_up(study, fit)))
    return found


def _that_fit(floors: Sequence[float], seconds: float) -> list[int]:
    """Chooses as many studies as possible whose floors fit the time; at least the shortest."""
    shortest_first = sorted(range(len(floors)), key=lambda place: floors[place])
    ends = accumulate(floors[place] for place in shortest_first)
    fit = [place for place, end in zip(shortest_first, ends, strict=True) if end <= seconds]
    return fit or shortest_first[:1]


def _level(floors: Sequence[float], wholes: Sequence[float], seconds: float) -> float:
    """The time per study at which all together use the available time."""
    low, high = 0.0, max(wholes)
    if sum(wholes) <= seconds:
        return high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        taken = sum(max(least, min(whole, middle)) for least, whole in zip(floors, wholes, strict=True))
        low, high = (middle, high) if taken <= seconds else (low, middle)
    return low
