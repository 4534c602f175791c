"""What changes would give, by the fitted network: each resource's limit anew, and the smallest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sojourn.applications.diagnosis import CoreGroup
from sojourn.applications.network import Network
from sojourn.applications.summary import Cause, Change, Knee

CACHED_FRACTION = 0.6


def changes(found: Network | None, bottleneck: Cause | None, shares: Mapping[str, float], knee: Knee) -> list[Change]:
    """The changes that make a difference, the largest first; none where no model is believed."""
    if found is None or bottleneck is None or knee.is_lower_bound:
        return []
    before = min(found.limits(shares).values(), default=None)
    if before is None:
        return []
    made = {}
    for group in found.groups:
        label = f"twice the cores for {', '.join(group.tiers)} ({group.cores} → {2 * group.cores})"
        made[label] = _with_cores(found, group)
    if found.workers is not None:
        made[f"twice the workers ({found.workers} → {2 * found.workers})"] = replace(found, workers=2 * found.workers)
        halved = {name: seconds / 2 for name, seconds in found.waits.items()}
        made["half the time that requests wait elsewhere"] = replace(found, waits=halved)
    heaviest = max(shares, key=lambda name: shares[name] * found.held_seconds(name))
    made[f"a cache that answers {CACHED_FRACTION:.0%} of {heaviest}"] = _with_cache(found, heaviest)
    measured = knee.requests_per_second.estimate
    result = []
    for what, network in made.items():
        factor = min(network.limits(shares).values()) / before
        if factor > 1.01:
            result.append(Change(what=what, capacity_requests_per_second=measured * factor, factor=factor))
    return sorted(result, key=lambda change: -change.factor)


def _with_cores(found: Network, group: CoreGroup) -> Network:
    larger = CoreGroup(group.tiers, 2 * group.cores)
    return replace(found, groups=tuple(larger if each == group else each for each in found.groups))


def _with_cache(found: Network, endpoint: str) -> Network:
    left = 1 - CACHED_FRACTION
    demands = {key: seconds * (left if key[0] == endpoint else 1.0) for key, seconds in found.demands.items()}
    waits = {name: seconds * (left if name == endpoint else 1.0) for name, seconds in found.waits.items()}
    return replace(found, demands=demands, waits=waits)
