"""Our side of a case, simulated or solved, in a process of its own like the peers.

A single station goes to the station simulator, a network to the network simulator; all statistics are on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from sojourn import queueing
from sojourn.queueing import System

UNREACHABLE_HALF_WIDTH = 1e-9
"""A half-width that no run reaches, so that the number of jobs ends the run."""
REPEATS = 5
"""Short solutions run this often, and the median counts."""


def simulate(text: str, jobs: int, seed: int) -> dict[str, float]:
    """Returns jobs, visits, CPU seconds and the mean response time in seconds."""
    system = System(text)
    begun = time.process_time()
    result = queueing.simulate(system, half_width=UNREACHABLE_HALF_WIDTH, jobs_max=jobs, seed=seed)
    seconds = time.process_time() - begun
    visits = sum(each["throughput_per_second"] for each in result["stations"].values()) * result["simulated_seconds"]
    return _figures(result["jobs"], visits, seconds, result["response_time_seconds"]["mean"])


def simulate_station(text: str, jobs: int, seed: int) -> dict[str, float]:
    """Does the same for a single station, with the station simulator."""
    system = System(text)
    station, kind = system.stations[0], system.classes[0]
    assert kind.rate_per_second is not None
    limit = 1 if station.discipline == "fifo" else station.r
    demand = _law(system)
    begun = time.process_time()
    result = queueing.simulate_poisson(
        kind.rate_per_second, demand, limit, half_width=UNREACHABLE_HALF_WIDTH, jobs_max=jobs, seed=seed
    )
    seconds = time.process_time() - begun
    return _figures(result["jobs"], result["jobs"], seconds, result["response_time_seconds"]["mean"])


def solve_lps(limit: int) -> dict[str, float]:
    """Solves the response-time distribution of M/H2/1/LPS, C2 = 10, rho = 0.8, with five percentiles."""
    demand = queueing.hyper_exponential(0.025675, 10.0)

    def solve() -> None:
        station = queueing.ExactLps(0.8 / demand.mean, demand, limit)
        station.quantile([0.5, 0.9, 0.95, 0.99, 0.999])

    return {"cpu_seconds": _middle(solve)}


def solve_mva(users: int) -> dict[str, float]:
    """Solves four stations by exact mean value analysis, and by every other solver that answers."""
    stations = "".join(f'stations.s{each} = {{ discipline = "ps", demand = "{5 + each}ms" }}\n' for each in range(4))
    system = System(
        stations + f'classes.users = {{ users = {users}, think_time = "1s", route = ["s0", "s1", "s2", "s3"] }}\n'
    )
    answer = queueing.predict(system)["solvers"]["mva"]["answer"]
    assert answer is not None
    return {
        "cpu_seconds": _middle(lambda: queueing.predict(system)),
        "throughput_per_second": answer["classes"]["users"]["throughput_per_second"],
    }


def _law(system: System) -> queueing.Distribution:
    """Returns the demand of the only visit; the cases use no other distributions than these."""
    visit = system.classes[0].routes[0].visits[0]
    mean = visit.demand_mean_seconds
    if visit.by_size:
        document = system.document(system.classes[0].name)
        assert document is not None
        low, high = (
            float(values[0][0][0]) for values in (system.demands(system.classes[0].name, [x]) for x in (0, 1e6))
        )
        return document.affine((high - low) / 1e6, low)
    scv = visit.demand_second_moment_seconds2 / mean**2 - 1.0
    if abs(scv) < 1e-9:
        return queueing.deterministic(mean)
    return queueing.exponential(mean) if abs(scv - 1.0) < 1e-9 else queueing.hyper_exponential(mean, scv)


def _figures(jobs: float, visits: float, seconds: float, mean: float) -> dict[str, float]:
    return {"jobs": jobs, "visits": visits, "cpu_seconds": seconds, "mean_response_time_seconds": mean}


def _middle(solve: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        solve()
        times.append(time.process_time() - begun)
    return sorted(times)[REPEATS // 2]


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind in ("lps", "mva"):
        print(json.dumps({"lps": solve_lps, "mva": solve_mva}[kind](int(sys.argv[2]))))
    else:
        case = json.load(sys.stdin)
        run = simulate_station if case["one_station"] else simulate
        print(json.dumps(run(case["text"], case["jobs"], case["seed"])))
