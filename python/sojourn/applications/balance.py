"""How unevenly the processes of a tier share its requests.

Who keeps connections to several processes, as nginx does, uses the one that was free last, so that for seconds one of
two processes may have nearly all requests. A tier's samples of CPU time say how much its busiest process had. With few
requests in a sample, chance makes one the busiest, too: the share is the one that would be sampled so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sojourn.applications.diagnosis import nearest
from sojourn.applications.network import Network
from sojourn.applications.summary import StepFigures
from sojourn.tiers.watch import BUSIEST_SECONDS

UNEVEN_MIN = 1.25
"""The busiest process's share beside an equal one from which on it limits its tier; less may be chance."""
MOST = 0.999
"""No process is alone."""
DRAWS, BISECTIONS = 1_000, 12


def busiest(network: Network, step: StepFigures) -> dict[str, float]:
    """The share of requests that the busiest process of each tier took, where there are several processes."""
    found = {}
    for tier, count in network.split().items():
        use = step.tiers[tier]
        requests = _requests(network, step, tier) * BUSIEST_SECONDS
        if count > 1 and requests > 0 and use.cpu_cores and use.busiest_process_cores is not None:
            found[tier] = _share(use.busiest_process_cores / use.cpu_cores, count, max(1, round(requests)))
    return found


def limiting(network: Network, beyond: Sequence[StepFigures]) -> Network:
    """With the share of the busiest process of each tier in the first of the steps beyond the knee, if it is uneven."""
    found = busiest(network, nearest(beyond))
    uneven = {tier: share for tier, share in found.items() if share >= UNEVEN_MIN / network.processes[tier]}
    return replace(network, busiest=uneven)


def _requests(network: Network, step: StepFigures, tier: str) -> float:
    """How many requests of equal CPU time would vary as much in a second as those of a step: if they differ, fewer."""
    seconds, squares = 0.0, 0.0
    for each in step.endpoints:
        own = network.demands.get((each.name, tier), 0.0)
        seconds += each.requests_per_second * own
        squares += each.requests_per_second * own**2 * (1 + network.variations.get(each.name, 0.0))
    return seconds**2 / squares if squares > 0 else 0.0


def _share(sampled: float, processes: int, requests: int) -> float:
    """The share of the busiest process that is sampled so, on average, of so many requests."""
    low, high = 1 / processes, MOST
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        shares = [middle, *[(1 - middle) / (processes - 1)] * (processes - 1)]
        drawn = np.random.default_rng(0).multinomial(requests, shares, DRAWS)
        low, high = (middle, high) if drawn.max(axis=1).mean() / requests < sampled else (low, middle)
    return low
