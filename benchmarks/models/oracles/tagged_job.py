"""Limited processor sharing with phase-type demand: global balance of all states, and a tagged job.

At most r jobs are in service and share the speed v(n) equally; the others wait in order. Arrivals are Poisson, so the
tagged job finds each state with the probability of global balance (PASTA). A second chain follows it from there. While
it waits, that chain counts the jobs behind it, because they compete with it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.models.oracles import markov

Counts = tuple[int, ...]
"""Jobs in service by phase."""


@dataclass(frozen=True)
class Phases:
    """A demand of exponential phases; a row of `following` lacks to one what ends the demand."""

    start: tuple[float, ...]
    rates: tuple[float, ...]
    following: tuple[tuple[float, ...], ...]

    def ends(self, phase: int) -> float:
        """Returns the probability that the demand ends with this phase."""
        return 1 - sum(self.following[phase])


def exponential(mean: float) -> Phases:
    """Returns a demand of one phase."""
    return Phases((1.0,), (1 / mean,), ((0.0,),))


def h2(mean: float, scv: float) -> Phases:
    """Returns a demand of two exponential branches with balanced means: p₁/μ₁ = p₂/μ₂."""
    p = (1 + ((scv - 1) / (scv + 1)) ** 0.5) / 2
    return Phases((p, 1 - p), (2 * p / mean, 2 * (1 - p) / mean), ((0.0, 0.0), (0.0, 0.0)))


def erlang(mean: float, stages: int) -> Phases:
    """Returns a demand of equal phases in series."""
    following = tuple(tuple(float(j == i + 1) for j in range(stages)) for i in range(stages))
    return Phases((1.0, *[0.0] * (stages - 1)), (stages / mean,) * stages, following)


@dataclass(frozen=True)
class Solved:
    """The mean by Little's law, the share of offered jobs that is lost, and the response time's distribution."""

    mean: float
    loss: float
    survival: markov.Survival

    def percentiles(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """Returns the percentiles by name."""
        return {name: self.survival.percentile(p) for name, p in wanted.items()}


def solve(
    demand: Phases,
    rate: float,
    r: int | None,
    *,
    speed: Callable[[int], float] = lambda n: min(n, 1),
    capacity: int | None = None,
    jobs_max: int = 200,
) -> Solved:
    """Solves it for arrivals at `rate`. Without a capacity the chain ends at `jobs_max`, where none should be lost."""
    station = Station(demand, rate, r or capacity or jobs_max, speed, capacity or jobs_max)
    chain = markov.explore([(0, station.empty)], station.moves)
    found = chain.stationary()
    present = loss = 0.0
    start: dict[_Tagged, float] = {}
    for (waiting, counts), index in chain.states.items():
        jobs = waiting + sum(counts)
        present += jobs * found[index]
        if jobs == station.capacity:
            loss += found[index]
        elif sum(counts) == station.r:
            start[(waiting, 0, -1, counts)] = found[index]
        else:
            for phase, p in enumerate(demand.start):
                if p:
                    start[(0, 0, phase, counts)] = found[index] * p
    tagged = markov.explore(start, station.tagged_moves)
    accepted = 1 - loss
    return Solved(
        present / (rate * accepted), loss, tagged.survival({state: p / accepted for state, p in start.items()})
    )


_Tagged = tuple[int, int, int, Counts]
"""Jobs waiting ahead, jobs behind, the tagged job's phase or -1 while it waits, the others in service."""


@dataclass(frozen=True)
class Station:
    demand: Phases
    rate: float
    r: int
    speed: Callable[[int], float]
    capacity: int

    @property
    def empty(self) -> Counts:
        return (0,) * len(self.demand.start)

    def moves(self, state: tuple[int, Counts]) -> Iterator[tuple[float, tuple[int, Counts]]]:
        waiting, counts = state
        if waiting + sum(counts) < self.capacity:
            if sum(counts) == self.r:
                yield self.rate, (waiting + 1, counts)
            else:
                for p, entered in self.entering(counts):
                    yield self.rate * p, (0, entered)
        for rate, left, ended in self.served(counts, sum(counts)):
            if ended and waiting:
                for p, entered in self.entering(left):
                    yield rate * p, (waiting - 1, entered)
            else:
                yield rate, (waiting, left)

    def tagged_moves(self, state: _Tagged) -> Iterator[tuple[float, _Tagged | None]]:
        ahead, behind, phase, counts = state
        own = phase >= 0
        in_service = sum(counts) + own
        if ahead + behind + sum(counts) + 1 < self.capacity:
            if in_service == self.r:
                yield self.rate, (ahead, behind + 1, phase, counts)
            else:
                for p, entered in self.entering(counts):
                    yield self.rate * p, (0, 0, phase, entered)
        for rate, left, ended in self.served(counts, in_service):
            if not ended:
                yield rate, (ahead, behind, phase, left)
            elif ahead:
                for p, entered in self.entering(left):
                    yield rate * p, (ahead - 1, behind, phase, entered)
            elif not own:
                for each, p in enumerate(self.demand.start):
                    if p:
                        yield rate * p, (0, behind, each, left)
            elif behind:
                for p, entered in self.entering(left):
                    yield rate * p, (0, behind - 1, phase, entered)
            else:
                yield rate, (0, 0, phase, left)
        if own:
            rate = self.speed(in_service) / in_service * self.demand.rates[phase]
            for each, p in enumerate(self.demand.following[phase]):
                if p:
                    yield rate * p, (ahead, behind, each, counts)
            if self.demand.ends(phase):
                yield rate * self.demand.ends(phase), None

    def entering(self, counts: Counts) -> Iterator[tuple[float, Counts]]:
        for phase, p in enumerate(self.demand.start):
            if p:
                yield p, _changed(counts, phase, 1)

    def served(self, counts: Counts, in_service: int) -> Iterator[tuple[float, Counts, bool]]:
        """Returns the transitions of the jobs in service, without the tagged one among `in_service`."""
        for phase, count in enumerate(counts):
            if not count:
                continue
            rate = self.speed(in_service) * count / in_service * self.demand.rates[phase]
            left = _changed(counts, phase, -1)
            for each, p in enumerate(self.demand.following[phase]):
                if p:
                    yield rate * p, _changed(left, each, 1), False
            if self.demand.ends(phase):
                yield rate * self.demand.ends(phase), left, True


def _changed(counts: Counts, phase: int, by: int) -> Counts:
    return (*counts[:phase], counts[phase] + by, *counts[phase + 1 :])
