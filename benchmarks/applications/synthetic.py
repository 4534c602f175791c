"""Applications made up of known CPU times, to try the steps that an assessment measures them by.

`steps` makes the real climb's steps at an effort; only the engine's load and the probe are replaced. Requests arrive at
random, their CPU times are exponential, and what a probe sees of them is rounded to the clock's ticks and scatters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from sojourn.applications import demands
from sojourn.applications.climb import CLIMB_FRACTIONS, Climb, idle_use
from sojourn.applications.flows import Flow
from sojourn.applications.request import EFFORTS
from sojourn.applications.schedule import Schedule
from sojourn.applications.steps import EndpointStep, Step
from sojourn.applications.summary import StepFigures, TierDescription
from sojourn.applications.traffic import Traffic
from sojourn.assessment.choices import EffortName
from sojourn.tiers.watch import SystemUse, TierUse, Watch

CORES = 2
TICK_SECONDS = 0.01
SCATTER = 0.03
"""Relative scatter of a tier's CPU time in a step: frequency, caches, other programs."""
LONGEST = 2.5
"""The length of a step at an effort, in its steps: that of slow systems."""
IDLE_CORES = 0.008
IDLE_PARTS = 6


@dataclass(frozen=True)
class MadeUp:
    """CPU milliseconds by endpoint, one for each tier, and the endpoints' shares of the requests."""

    tiers: Sequence[str]
    milliseconds: Mapping[str, Sequence[float]]
    shares: Mapping[str, float]
    waits_milliseconds: float = 2.0
    """How long every request waits outside the tiers."""

    def seconds(self, endpoint: str, tier: str) -> float:
        return self.milliseconds[endpoint][self.tiers.index(tier)] / 1e3

    @property
    def knee(self) -> float:
        """Requests/s of the shares that fill the cores."""
        return CORES / sum(
            share * self.seconds(name, tier) for name, share in self.shares.items() for tier in self.tiers
        )

    def measured(self, effort: EffortName, seed: int) -> demands.Measured:
        """The CPU times that an assessment derives from its steps."""
        described = [
            TierDescription(
                name=tier,
                declared=tier,
                command=tier,
                cores=list(range(CORES)),
                port=None,
                idle=idle_use([IDLE_CORES * (1 + 0.1 * part) for part in range(IDLE_PARTS)], 1.0),
            )
            for tier in self.tiers
        ]
        steps = [each for each in self.steps(effort, seed) if each.failed_because is None]
        return demands.measure(steps, list(self.shares), described, seed, {})

    def steps(self, effort: EffortName, seed: int) -> list[StepFigures]:
        """The steps of a rise, of climbs around the knee, and of each endpoint alone."""
        climb = self._climb(effort, seed)
        knee, _ = climb.explore()
        climb.climb(knee)
        climb.mixes(knee)
        return [figures for _, figures in climb.steps]

    def climbed(self, fraction: float, *, completed: bool = False) -> list[StepFigures]:
        """The steps around what is taken for the knee but is this fraction of it, and those that complete them."""
        climb = self._climb(EffortName.quick, 1)
        climb.climb(fraction * self.knee)
        if completed:
            climb.complete(self.knee)
        return [figures for _, figures in climb.steps]

    def _climb(self, effort: EffortName, seed: int) -> Climb:
        loading = _Loading(self, np.random.default_rng(seed), LONGEST * EFFORTS[effort].step_seconds)
        return Climb(
            traffic=cast("Traffic", loading),
            watch=cast("Watch", loading),
            shares=self.shares,
            effort=EFFORTS[effort],
            errors_max=0.05,
            rate_max=0.94 * self.knee,
            told=lambda said, share, left_seconds: None,
            schedule=Schedule.of(EFFORTS[effort], len(self.shares), len(CLIMB_FRACTIONS)),
        )


@dataclass
class _Loading:
    """Stands for the load and for the probe of the same steps."""

    made_up: MadeUp
    random: np.random.Generator
    seconds: float
    sessions: Sequence[object] = ()
    tiers: Sequence[object] = ()
    now: float = 0.0

    @property
    def flows(self) -> list[Flow]:
        return [Flow(name, share, [{"name": name}]) for name, share in self.made_up.shares.items()]

    _used: dict[str, float] = field(default_factory=dict)

    def step(self, rates: Mapping[str, float], *_lengths: object, **_how: object) -> Step:
        self._used = dict.fromkeys(self.made_up.tiers, 0.0)
        found = []
        for name, rate in rates.items():
            count = int(self.random.poisson(rate * self.seconds))
            for tier in self.made_up.tiers:
                self._used[tier] += float(self.random.gamma(count, self.made_up.seconds(name, tier))) if count else 0.0
            whole = sum(self.made_up.seconds(name, tier) for tier in self.made_up.tiers)
            mean = whole + self.made_up.waits_milliseconds / 1e3 if count else None
            found.append(
                EndpointStep(
                    name=name,
                    offered_per_second=rate,
                    responses_per_second=count / self.seconds,
                    requests=count,
                    failures=0,
                    unfinished=0,
                    mean_seconds=mean,
                    p50_seconds=mean,
                    p95_seconds=mean,
                    p99_seconds=mean,
                    histogram=None,
                    failed_by={},
                )
            )
        self.now += self.seconds
        return Step(self.now - self.seconds, self.now, found)

    def used(self, *_span: float) -> SystemUse:
        def cores(seconds: float) -> float:
            seen = seconds * float(self.random.normal(1, SCATTER)) + self.random.uniform(0, TICK_SECONDS)
            return seen // TICK_SECONDS * TICK_SECONDS / self.seconds + IDLE_CORES

        tiers = {tier: TierUse(cpu_cores=cores(seconds)) for tier, seconds in self._used.items()}
        # A step's requests are worked off when it ends.
        self._used = dict.fromkeys(self.made_up.tiers, 0.0)
        busy = min(float(CORES), sum(each.cpu_cores or 0.0 for each in tiers.values()))
        return SystemUse(tiers=tiers, database=None, levels={}, machine_busy_cores=busy, busy_by_core={})

    def cpu_windows(self, *_windows: float) -> dict[str, list[float]]:
        return {}

    def ended_because(self, _tier: object) -> None:
        return None

    def logged_in(self) -> None:
        return None


SHOP = MadeUp(
    ("web", "app", "db"),
    {
        "pages": (0.2, 2.6, 0.6),
        "product": (0.25, 3.3, 1.0),
        "search": (0.3, 3.0, 4.0),
        "static": (0.15, 0.0, 0.0),
    },
    {"pages": 0.53, "product": 0.19, "search": 0.15, "static": 0.13},
)
"""About the example shop."""
MISSING_INDEX = MadeUp(SHOP.tiers, {**SHOP.milliseconds, "search": (0.3, 3.0, 200.0)}, SHOP.shares)
"""One endpoint takes a hundred times as long as the others."""
