"""Networks small enough for global balance of every state: the only theorem used is Little's law."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.models.oracles import markov
from benchmarks.models.oracles.tagged_job import Counts, Phases, Station

JOBS_MAX = 90


def tandem(first: Phases, second_rate: float, rate: float) -> tuple[float, float]:
    """Returns the mean times at two FIFO stations in series, the second with exponential demand."""

    def moves(state: tuple[int, int, int]) -> Iterator[tuple[float, tuple[int, int, int]]]:
        ahead, phase, behind = state
        if ahead < JOBS_MAX:
            if ahead:
                yield rate, (ahead + 1, phase, behind)
            else:
                for each, p in enumerate(first.start):
                    if p:
                        yield rate * p, (1, each, behind)
        if ahead:
            own = first.rates[phase]
            for each, p in enumerate(first.following[phase]):
                if p:
                    yield own * p, (ahead, each, behind)
            if first.ends(phase) and behind < JOBS_MAX:
                for each, p in enumerate(first.start) if ahead > 1 else [(0, 1.0)]:
                    if p:
                        yield own * first.ends(phase) * p, (ahead - 1, each, behind + 1)
        if behind:
            yield second_rate, (ahead, phase, behind - 1)

    chain = markov.explore([(0, 0, 0)], moves)
    found = chain.stationary()
    ahead, behind = (sum(found[i] * state[k] for state, i in chain.states.items()) for k in (0, 2))
    return ahead / rate, behind / rate


def lossy_tandem(rate: float, capacity: int, first: float, second: float) -> tuple[float, float]:
    """M/M/1/K, then an exponential server: returns the loss, and the mean time of accepted jobs at the second."""

    def moves(state: tuple[int, int]) -> Iterator[tuple[float, tuple[int, int]]]:
        here, behind = state
        if here < capacity:
            yield rate, (here + 1, behind)
        if here and behind < JOBS_MAX:
            yield first, (here - 1, behind + 1)
        if behind:
            yield second, (here, behind - 1)

    chain = markov.explore([(0, 0)], moves)
    found = chain.stationary()
    loss = sum(found[i] for (here, _), i in chain.states.items() if here == capacity)
    return loss, sum(found[i] * behind for (_, behind), i in chain.states.items()) / (rate * (1 - loss))


def blocking(rate: float, first: float, second: float, capacity: int) -> float:
    """Mean time in M/M/1 → ·/M/1/K with blocking after service: a job keeps its server until the next has room."""

    def moves(state: tuple[int, int, bool]) -> Iterator[tuple[float, tuple[int, int, bool]]]:
        here, behind, blocked = state
        if here < JOBS_MAX:
            yield rate, (here + 1, behind, blocked)
        if here and not blocked:
            yield first, ((here - 1, behind + 1, False) if behind < capacity else (here, behind, True))
        if behind:
            # The blocked job takes the free place at once.
            yield second, ((here - 1, behind, False) if blocked else (here, behind - 1, False))

    chain = markov.explore([(0, 0, False)], moves)
    found = chain.stationary()
    return float(sum(found[i] * (here + behind) for (here, behind, _), i in chain.states.items())) / rate


def retrial(rate: float, served: float, capacity: int, again: float) -> tuple[float, float]:
    """M/M/1/K whose rejected jobs retry after exponential times, for ever: the mean time, and P(full)."""

    def moves(state: tuple[int, int]) -> Iterator[tuple[float, tuple[int, int]]]:
        here, away = state
        if here < capacity:
            yield rate, (here + 1, away)
        elif away < JOBS_MAX:
            yield rate, (here, away + 1)
        if away and here < capacity:
            yield away * again, (here + 1, away - 1)
        if here:
            yield served, (here - 1, away)

    chain = markov.explore([(0, 0)], moves)
    found = chain.stationary()
    present = sum(found[i] * (here + away) for (here, away), i in chain.states.items())
    return present / rate, sum(found[i] for (here, _), i in chain.states.items() if here == capacity)


def closed_lps(demand: Phases, r: int, users: int, thinking: float) -> float:
    """Returns the throughput of users with exponential think times at one LPS station."""
    station = Station(demand, 0.0, r, lambda n: min(n, 1), users)

    def moves(state: tuple[int, Counts]) -> Iterator[tuple[float, tuple[int, Counts]]]:
        waiting, counts = state
        idle = users - waiting - sum(counts)
        if idle:
            if sum(counts) == r:
                yield idle / thinking, (waiting + 1, counts)
            else:
                for p, entered in station.entering(counts):
                    yield idle / thinking * p, (0, entered)
        for rate, left, ended in station.served(counts, sum(counts)):
            if ended and waiting:
                for p, entered in station.entering(left):
                    yield rate * p, (waiting - 1, entered)
            else:
                yield rate, (waiting, left)

    chain = markov.explore([(0, station.empty)], moves)
    found = chain.stationary()
    idle = sum(found[i] * (users - waiting - sum(counts)) for (waiting, counts), i in chain.states.items())
    return float(idle) / thinking


def mixed(
    open_rate: float, open_demand: float, closed_demand: float, users: int, thinking: float
) -> tuple[float, float]:
    """One PS station: returns the mean time of the open class, and the throughput of the closed one."""

    def moves(state: tuple[int, int]) -> Iterator[tuple[float, tuple[int, int]]]:
        visitors, members = state
        if visitors < 4 * JOBS_MAX:
            yield open_rate, (visitors + 1, members)
        if members < users:
            yield (users - members) / thinking, (visitors, members + 1)
        if visitors:
            yield visitors / (visitors + members) / open_demand, (visitors - 1, members)
        if members:
            yield members / (visitors + members) / closed_demand, (visitors, members - 1)

    chain = markov.explore([(0, 0)], moves)
    found = chain.stationary()
    visitors = sum(found[i] * state[0] for state, i in chain.states.items())
    return visitors / open_rate, sum(found[i] * (users - state[1]) for state, i in chain.states.items()) / thinking
