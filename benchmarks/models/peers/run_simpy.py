"""SimPy, with the fastest processor sharing that we could write for it (it has none), by virtual time.

FIFO is SimPy's own `Resource`. At the shared station, V grows by 1/n per second while n jobs are in service. A job is
done when V reaches its tag. One timeout is pending, for the least tag; an outdated timeout finds another version.
"""

from __future__ import annotations

import heapq
import random
from collections import deque

import simpy
from model import answer, read, timed


class Fifo:
    def __init__(self, environment, servers):
        self.environment, self.resource = environment, simpy.Resource(environment, servers)

    def serve(self, seconds):
        with self.resource.request() as turn:
            yield turn
            yield self.environment.timeout(seconds)


class Shared:
    def __init__(self, environment, limit):
        self.environment, self.limit = environment, limit
        self.heap, self.waiting = [], deque()
        self.virtual = self.updated = 0.0
        self.version = self.count = 0

    def serve(self, seconds):
        done = self.environment.event()
        self.advance()
        if len(self.heap) < self.limit:
            self.admit(seconds, done)
        else:
            self.waiting.append((seconds, done))
        self.plan()
        yield done

    def advance(self):
        now = self.environment.now
        if self.heap:
            self.virtual += (now - self.updated) / len(self.heap)
        else:
            self.virtual = 0.0
        self.updated = now

    def admit(self, seconds, done):
        self.count += 1
        heapq.heappush(self.heap, (self.virtual + seconds, self.count, done))

    def plan(self):
        self.version += 1
        if self.heap:
            version = self.version
            delay = max(0.0, (self.heap[0][0] - self.virtual) * len(self.heap))
            self.environment.timeout(delay).callbacks.append(lambda event: self.complete(version))

    def complete(self, version):
        if version != self.version:
            return
        self.advance()
        tag, _, done = heapq.heappop(self.heap)
        self.virtual = tag
        done.succeed()
        if self.waiting:
            self.admit(*self.waiting.popleft())
        self.plan()


class Delay:
    def __init__(self, environment):
        self.environment = environment

    def serve(self, seconds):
        yield self.environment.timeout(seconds)


def run(text, jobs, seed):
    random.seed(seed)
    model = read(text)
    environment = simpy.Environment()
    kinds = {
        "fifo": lambda table: Fifo(environment, table.get("servers", 1)),
        "ps": lambda table: Shared(environment, float("inf")),
        "lps": lambda table: Shared(environment, table["r"]),
        "is": lambda table: Delay(environment),
    }
    stations = {name: kinds[table["discipline"]](table) for name, table in model.stations.items()}
    ended = environment.event()
    seen = {"jobs": 0, "visits": 0, "sum": 0.0, "counted": 0}
    warm_up = jobs // 10

    def job(kind):
        begun, size = environment.now, kind.size()
        for station, draw in kind.route():
            yield from stations[station].serve(draw(size))
            seen["visits"] += 1
        seen["jobs"] += 1
        if seen["jobs"] > warm_up:
            seen["sum"] += environment.now - begun
            seen["counted"] += 1
        if seen["jobs"] == jobs:
            ended.succeed()

    def arrivals(kind):
        while True:
            yield environment.timeout(random.expovariate(kind.rate))
            environment.process(job(kind))

    def user(kind):
        while True:
            yield from job(kind)

    for kind in model.classes:
        if kind.rate is not None:
            environment.process(arrivals(kind))
        for _ in range(kind.users):
            environment.process(user(kind))
    seconds, _ = timed(lambda: environment.run(until=ended))
    return {
        "jobs": seen["jobs"],
        "visits": seen["visits"],
        "cpu_seconds": seconds,
        "mean_response_time_seconds": seen["sum"] / seen["counted"],
    }


answer(run)
