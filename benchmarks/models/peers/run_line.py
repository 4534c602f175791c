"""LINE: its discrete-event simulator for one station, and its analytic solvers by name.

The simulator runs as a program of its own; the time includes its start, as for every caller.
"""

from __future__ import annotations

import sys
import warnings

warnings.filterwarnings("ignore")

from line_solver import (  # noqa: E402
    Det,
    Exp,
    HyperExp,
    Network,
    OpenClass,
    Queue,
    SchedStrategy,
    Sink,
    SolverLDES,
    SolverMVA,
    Source,
)
from model import answer, quantity, read, timed  # noqa: E402


def distribution(table):
    if isinstance(table, str):
        return Det(quantity(table))
    mean = quantity(table["mean"])
    return Exp(1.0 / mean) if table["law"] == "exponential" else HyperExp.fitMeanAndSCV(mean, table["scv"])


def network(text):
    model = read(text)
    (kind,), (station,) = model.classes, model.stations.values()
    strategy = {"fifo": SchedStrategy.FCFS, "ps": SchedStrategy.PS, "lps": SchedStrategy.LPS}[station["discipline"]]
    built = Network("case")
    source, server, sink = Source(built, "source"), Queue(built, "server", strategy), Sink(built, "sink")
    jobs = OpenClass(built, "jobs")
    source.setArrival(jobs, Exp(kind.rate))
    server.setService(jobs, distribution(station["demand"]))
    if station["discipline"] == "lps":
        server.setLimit(station["r"])
    built.link(Network.serialRouting(source, server, sink))
    return built


def run(text, jobs, seed):
    solver = sys.argv[1]
    built = network(text)
    if solver == "ldes":
        seconds, table = timed(lambda: SolverLDES(built, samples=jobs, seed=seed, verbose=False).getAvgTable())
    else:
        seconds, table = timed(lambda: SolverMVA(built, method=solver).getAvgTable())
        jobs = 0
    mean = float(table[table["Station"] == "server"]["RespT"].iloc[0])
    return {"jobs": jobs, "visits": jobs, "cpu_seconds": seconds, "mean_response_time_seconds": mean}


answer(run)
