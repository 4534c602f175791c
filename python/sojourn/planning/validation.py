"""Lists the figures of a plan that rest on the model alone, without a confirming measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sojourn.planning.answers import LargestTraffic, LeverAnswer, Now
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import Metric
from sojourn.queueing.system_file import measured_range
from sojourn.text import format

OF_ALL = (
    "every figure: the file does not say at which rates this system was measured "
    "(what sojourn fit makes of load runs does)"
)


def never_validated(
    document: SystemDocument,
    settings: Sequence[str],
    metric: Metric,
    now: Now,
    traffic: LargestTraffic,
    levers: Sequence[LeverAnswer],
) -> list[str]:
    """The plan's statements beyond the measured range, each with the reason; `settings` changed the file's system."""
    measured = measured_range(document.description)
    return [OF_ALL] if measured is None else list(_beyond(measured[1], settings, metric, now, traffic, levers))


def _beyond(
    highest: float,
    settings: Sequence[str],
    metric: Metric,
    now: Now,
    traffic: LargestTraffic,
    levers: Sequence[LeverAnswer],
) -> Iterator[str]:
    upto = f"the system was measured up to {format.number(highest)} requests/s"
    if now.throughput_per_second > highest:
        yield f"the time now, at {format.number(now.throughput_per_second)} requests/s: {upto}"
    if traffic.factor is not None and traffic.throughput_per_second > highest:
        yield f"the largest traffic, {format.number(traffic.throughput_per_second)} requests/s: {upto}"
    if metric.statistic not in ("mean", "residence"):
        yield f"{metric.statistic}: the fit was compared with measured means only"
    if levers:
        yield f"what a change gives ({', '.join(lever.label for lever in levers)}): no run measured it"
    if settings:
        yield f"the system with {', '.join(settings)}: it was measured without these settings"
