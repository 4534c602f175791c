"""The report's plots in the order of the page: one file per plot or family, and one table of names.

Each takes the run and returns a `Chart`, or a `Missing` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable

from sojourn.report.assessment.plots.demand import demand
from sojourn.report.assessment.plots.load import throughput, utilisation
from sojourn.report.assessment.plots.response_time import response_time
from sojourn.report.assessment.plots.timeline import (
    timeline_cpu,
    timeline_lost,
    timeline_memory,
    timeline_queue,
    timeline_response_time,
    timeline_throughput,
)
from sojourn.report.assessment.plots.workload import daily_rhythm, popularity, transfer_sizes
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Chart, Missing

Plot = Callable[[Run], Chart | Missing]

SECTIONS: dict[str, list[Plot]] = {
    "load": [response_time, throughput, utilisation],
    "demand": [demand],
    "log": [transfer_sizes, popularity, daily_rhythm],
    "timeline": [
        timeline_throughput,
        timeline_response_time,
        timeline_cpu,
        timeline_lost,
        timeline_queue,
        timeline_memory,
    ],
}
"""The plots under each heading of the page."""
