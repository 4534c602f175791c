"""LINE's exact mean value analysis of four processor-sharing stations and users with think time."""

from __future__ import annotations

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")

from line_solver import ClosedClass, Delay, Exp, Network, Queue, SchedStrategy, SolverMVA  # noqa: E402

users = int(sys.argv[1])
network = Network("closed")
think = Delay(network, "think")
stations = [Queue(network, f"s{each}", SchedStrategy.PS) for each in range(4)]
jobs = ClosedClass(network, "users", users, think)
think.setService(jobs, Exp(1.0))
for index, station in enumerate(stations):
    station.setService(jobs, Exp(1e3 / (5 + index)))
network.link(Network.serialRouting(think, *stations))
begun = time.process_time()
table = SolverMVA(network, method="exact").getAvgTable()
seconds = time.process_time() - begun
print(json.dumps({"cpu_seconds": seconds, "throughput_per_second": float(table["Tput"].iloc[0])}))
