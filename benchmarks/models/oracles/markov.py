"""Markov chains written out state by state: reachable states, global balance, times to absorption."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, eye
from scipy.sparse.linalg import spsolve
from scipy.stats import poisson

State = TypeVar("State", bound=Hashable)
Moves = Callable[[State], Iterable[tuple[float, State | None]]]
"""The transitions of a state with their rates; None is the absorbing state."""
SURVIVAL_MIN = 1e-5


@dataclass(frozen=True)
class Chain(Generic[State]):
    """The states and the rates between them; what `leaving` exceeds a row's sum by goes to the absorbing state."""

    states: Mapping[State, int]
    between: csr_matrix
    leaving: NDArray[np.float64]

    def stationary(self) -> NDArray[np.float64]:
        """Returns the stationary probabilities of a chain without an absorbing state."""
        balance = (self.between - diags(self.leaving)).T.tolil()
        balance[0, :] = 1.0
        right = np.zeros(len(self.states))
        right[0] = 1.0
        return np.asarray(spsolve(balance.tocsc(), right))

    def survival(self, start: Mapping[State, float]) -> Survival:
        """Returns the survival of the time to absorption, for these initial probabilities of the states."""
        rate = float(self.leaving.max())
        step = csr_matrix((eye(len(self.states)) + (self.between - diags(self.leaving)) / rate).T)
        now = np.zeros(len(self.states))
        for state, probability in start.items():
            now[self.states[state]] += probability
        beyond = [1.0]
        while beyond[-1] > SURVIVAL_MIN:
            now = np.ravel(step @ now)
            beyond.append(float(now.sum()))
        return Survival(rate, np.array(beyond))


@dataclass(frozen=True)
class Survival:
    """The probability that a time is exceeded, by uniformisation with a Poisson process of this rate."""

    rate: float
    beyond: NDArray[np.float64]

    def at(self, time: float) -> float:
        """Returns P(T > time)."""
        jumps = np.arange(len(self.beyond))
        return float(poisson.pmf(jumps, self.rate * time) @ self.beyond)

    def percentile(self, p: float) -> float:
        """Returns a percentile by bisection."""
        low, high = 0.0, (len(self.beyond) - 1) / self.rate
        while self.at(high) > 1 - p:
            high *= 2
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle) > 1 - p else (low, middle)
        return (low + high) / 2


def explore(start: Iterable[State], moves: Moves[State]) -> Chain[State]:
    """Returns the chain of all states that can be reached from the given ones."""
    states: dict[State, int] = {}
    waiting = []
    for state in start:
        if state not in states:
            states[state] = len(states)
            waiting.append(state)
    rows, columns, rates, leaving = [], [], [], []
    for state in waiting:
        row, total = states[state], 0.0
        for rate, following in moves(state):
            total += rate
            if following is None:
                continue
            if following not in states:
                states[following] = len(states)
                waiting.append(following)
            rows.append(row)
            columns.append(states[following])
            rates.append(rate)
        leaving.append(total)
    between = csr_matrix((rates, (rows, columns)), shape=(len(states), len(states)))
    return Chain(states, between, np.array(leaving))
