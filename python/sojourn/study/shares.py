"""A time for all studies, shared out: each gets as much, those that need less leave the rest to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from sojourn.study import scale
from sojourn.study.document import Study

_ROUNDS = 40
"""Of the halving that finds the level."""


@dataclass(frozen=True)
class Share:
    """What a study gets, and what is measured in it."""

    study: Study
    seconds: float
    """At most; the study's own estimate may be shorter. 0 if it is left out."""
    needs_seconds: float
    """By the estimate, of what is to be measured."""
    left_out: Sequence[str]
    """What the whole study has and this has not."""


def shared_out(studies: Sequence[Study], seconds: float) -> list[Share]:
    """Shares of a time, in the studies' order.

    No study gets less than all that its checks name takes, while there is time for that; else none gets less than its
    floor. Where even the floors take longer, the longest are left out, for a study that is cut short decides nothing.
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
    """Which studies have their floors in the time, as many as may be; the shortest in any case."""
    shortest_first = sorted(range(len(floors)), key=lambda place: floors[place])
    ends = accumulate(floors[place] for place in shortest_first)
    fit = [place for place, end in zip(shortest_first, ends, strict=True) if end <= seconds]
    return fit or shortest_first[:1]


def _level(floors: Sequence[float], wholes: Sequence[float], seconds: float) -> float:
    """The time that each may take so that together they take what there is."""
    low, high = 0.0, max(wholes)
    if sum(wholes) <= seconds:
        return high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        taken = sum(max(least, min(whole, middle)) for least, whole in zip(floors, wholes, strict=True))
        low, high = (middle, high) if taken <= seconds else (low, middle)
    return low
