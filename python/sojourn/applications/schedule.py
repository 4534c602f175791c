"""How long the rest of an application's assessment will take: the steps to come, each as long as those before.

Only what is shown while it runs depends on it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from sojourn.applications.request import Effort

EXPLORED_STEPS = 9
"""About how many steps it takes from the first rate to one beyond the knee."""
CHANGED_STEPS = 3
"""The same from a fraction of the knee that was predicted."""
OVERHEAD_SECONDS = 0.7
"""About how long a step takes beside its length: the generator starts, and the tiers come to rest after a failure."""
RECENT_STEPS = 6


@dataclass
class Schedule:
    """The steps of an assessment, by kind."""

    to_come: dict[str, float]
    step_seconds: float
    """The expected length of a step, until one was made."""
    made: dict[str, float] = field(default_factory=dict)
    took_seconds: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, effort: Effort, endpoints: int, fractions: int) -> Schedule:
        """What an effort plans: its climbs have steps at so many fractions of the knee."""
        steps = {
            "explore": EXPLORED_STEPS,
            "climb": effort.climbs * fractions,
            "overload": 1,
            "mix": effort.mixes * endpoints,
        }
        return cls(dict(steps), effort.step_seconds + effort.settle_seconds + OVERHEAD_SECONDS)

    @classmethod
    def of_change(cls, effort: Effort, fractions: int) -> Schedule:
        """What measuring one change takes: it begins near the knee, and measures no endpoint alone."""
        planned = cls.of(effort, 0, fractions)
        planned.to_come |= {"explore": CHANGED_STEPS, "overload": 0}
        return planned

    def did(self, kind: str, seconds: float) -> None:
        """Records a step. More steps than were planned make the end of their kind uncertain: one is always to come."""
        least = 1 if kind == "explore" else 0
        self.to_come[kind] = max(least, self.to_come.get(kind, 0) - 1)
        self.made[kind] = self.made.get(kind, 0) + 1
        self.took_seconds.append(seconds)

    def expects(self, kind: str, steps: int) -> None:
        """Says how many steps of a kind are to come."""
        self.to_come[kind] = steps

    def ended(self, kind: str) -> None:
        """Says that no step of this kind is to come."""
        self.to_come[kind] = 0

    def share(self, kind: str) -> float | None:
        """The share of the steps of a kind that were made; None for one that was not planned."""
        made, to_come = self.made.get(kind, 0), self.to_come.get(kind, 0)
        return made / (made + to_come) if to_come else None

    def left_seconds(self) -> float | None:
        """How long all steps to come will take; None if none is planned."""
        steps = sum(self.to_come.values())
        recent = self.took_seconds[-RECENT_STEPS:]
        return steps * (statistics.mean(recent) if recent else self.step_seconds) if steps else None
