"""LINE's exact mean value analysis of four processor-sharing stations and users with think time."""

from __future__ import annotations

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")

from line_solver import ClosedClass, Delay, Exp, Network, Queue, SchedStrategy, SolverMVA  # noqa: E402

REPEATS = 5
users = int(sys.argv[1])
network = Network("closed")
think = Delay(network, "think")
stations = [Queue(network, f"s{each}", SchedStrategy.PS) for each in range(4)]
jobs = ClosedClass(network, "users", users, think)
think.setService(jobs, Exp(1.0))
for index, station in enumerate(stations):
    station.setService(jobs, Exp(1e3 / (5 + index)))
network.link(Network.serialRouting(think, *stations))
times = []
# The first is not counted, as of ours.
for _ in range(1 + REPEATS):
    begun = time.process_time()
    table = SolverMVA(network, method="exact").getAvgTable()
    times.append(time.process_time() - begun)
middle = sorted(times[1:])[REPEATS // 2]
print(json.dumps({"cpu_seconds": middle, "throughput_per_second": float(table["Tput"].iloc[0])}))
