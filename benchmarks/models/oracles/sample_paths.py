"""Simulates stations job by job in plain Python, for distributions without a chain: slow, but simple to check."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

Draw = Callable[[random.Random], float]


def multi_server(rate: float, draw: Draw, servers: int, jobs: int, seed: int) -> list[float]:
    """Returns response times in order of arrival: each job takes the server that is free first (Kiefer, Wolfowitz)."""
    chance = random.Random(seed)
    times: list[float] = []
    free, now = [0.0] * servers, 0.0
    for _ in range(jobs):
        now += chance.expovariate(rate)
        demand = draw(chance)
        starts = max(now, free[0])
        heapq.heapreplace(free, starts + demand)
        times.append(starts + demand - now)
    return times


def limited_sharing(rate: float, draw: Draw, r: int, jobs: int, seed: int) -> list[float]:
    """Returns response times of LPS: each job in service receives the elapsed time divided by their number."""
    chance = random.Random(seed)
    times: list[float] = []
    served: list[tuple[float, float]] = []
    waiting: deque[tuple[float, float]] = deque()
    now = got = 0.0
    arrival = chance.expovariate(rate)
    while len(times) < jobs:
        ends = now + (served[0][0] - got) * len(served) if served else float("inf")
        if arrival <= ends:
            got += (arrival - now) / len(served) if served else 0.0
            now = arrival
            demand = draw(chance)
            if len(served) < r:
                heapq.heappush(served, (got + demand, now))
            else:
                waiting.append((now, demand))
            arrival = now + chance.expovariate(rate)
        else:
            now = ends
            got, began = heapq.heappop(served)
            times.append(now - began)
            if waiting:
                came, demand = waiting.popleft()
                heapq.heappush(served, (got + demand, came))
    return times
