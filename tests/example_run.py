"""EXAMPLE DATA for the tests of the report: a run that looks like a real one. Nothing here was measured.

A processor-sharing server with a fixed demand law, seeded noise and a saturated end, written as a run folder.
"""

import json
import math
import random
from pathlib import Path
from typing import Any

from sojourn.assessment.summary import (
    Answer,
    DemandFit,
    DemandPoint,
    Doubling,
    Knee,
    Model,
    Prediction,
    PredictionError,
    Resource,
    Settings,
    Step,
    Summary,
    SystemUnderTest,
    write_summary,
)
from sojourn.results.records import Interval, Spread
from sojourn.results.run_folder import RunFolder

CAPACITY = 13_050.0
KNEE = 12_300.0
FRACTIONS = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.95, 1.02, 1.1, 1.2)
HELD_OUT = (0.45, 0.8, 0.95)
LATENCY = 180e-6
ANY = random.Random(1)


def write_example(path: Path, **changes: Any) -> RunFolder:
    """A whole run folder; `changes` replace fields of its summary."""
    folder = RunFolder.create(path)
    write_summary(folder, example_summary().model_copy(update=changes))
    folder.write_table("points.parquet", example_points())
    folder.write_table("timeline.parquet", example_timeline())
    folder.write_json("environment.json", ENVIRONMENT)
    return folder


def write_bare_example(path: Path) -> RunFolder:
    """A run that ended right after it began: every optional part is `None` or empty."""
    folder = RunFolder.create(path)
    full = example_summary()
    bare = dict.fromkeys(("site_documents", "site_bytes", "system", "demand_fit", "knee", "model", "answer"), None)
    empty: dict[str, Any] = {"demand_points": [], "steps": [], "log_import": {}, "characteristics": {}}
    ended: dict[str, Any] = {"complete": False, "incomplete_because": "interrupted", "warnings": []}
    write_summary(folder, full.model_copy(update={**bare, **empty, **ended}))
    return folder


def example_summary() -> Summary:
    """The summary of the example."""
    ANY.seed(1)
    return Summary(
        sojourn_version="0.1.0",
        started_at="2026-03-02T10:15:04+00:00",
        duration_seconds=221.4,
        complete=True,
        incomplete_because=None,
        log_name="example.log.gz",
        settings=SETTINGS,
        log_import=LOG_IMPORT,
        characteristics=example_characteristics(),
        site_documents=11_482,
        site_bytes=167_000_000,
        system=SYSTEM,
        demand_points=example_demand_points(),
        demand_fit=DEMAND_FIT,
        steps=[example_step(fraction) for fraction in FRACTIONS],
        knee=Knee(
            requests_per_second=KNEE,
            low=12_040.0,
            high=12_520.0,
            per_repetition=[12_300.0, 12_040.0, 12_520.0],
            reason="time to first byte",
            is_lower_bound=False,
        ),
        model=MODEL,
        answer=ANSWER,
        warnings=["The machine is virtual: other guests may have taken time from both cores."],
    )


SETTINGS = Settings(
    server="sojourn",
    architecture="amped",
    target_p95_seconds=0.2,
    access_line_bits_per_second=1e9,
    session_gap_seconds=15.0,
    think_scale=0.02,
    think_scale_because="at their own pace, sessions would need 190,000 open connections",
    repetitions=3,
    seed=1,
)
SYSTEM = SystemUnderTest(
    name="sojourn",
    version="0.1.0",
    command=["sojourn-engine", "serve", "site", "--architecture", "amped", "--listen", "127.0.0.1:0"],
    server_core=0,
    generator_core=1,
    pinned=True,
    helpers=4,
)
DEMAND_FIT = DemandFit(
    seconds_per_byte=Interval(estimate=1.62e-10, low=1.51e-10, high=1.74e-10),
    fixed_seconds=Interval(estimate=58e-6, low=55e-6, high=61.5e-6),
    connection_seconds=Interval(estimate=41e-6, low=36e-6, high=47e-6),
    basis="cpu",
    points_used=46,
    points_left_out=2,
    relative_error_median=0.047,
)
MODEL = Model(
    jobs_in_service_limit=None,
    mean_demand_seconds=1 / CAPACITY,
    demand_squared_coefficient_of_variation=1.9,
    calibration_factor=Interval(estimate=1.083, low=1.041, high=1.127),
    interruption_seconds=12e-6,
    latency_p95_seconds=60e-6,
    interruption_p95_seconds=40e-6,
    busy_capacity_requests_per_second=1.2 * CAPACITY,
    latency_seconds=LATENCY,
    capacity_requests_per_second=CAPACITY,
    steps_fitted=5,
    steps_held_out=3,
    held_out_error_requests_per_second=0.021,
    held_out_error_response_time_mean=0.134,
    held_out_error_response_time_p95=0.262,
    notes=["Helpers were idle: every document was in memory."],
)
ANSWER = Answer(
    largest_rate_requests_per_second=KNEE,
    low_requests_per_second=12_040.0,
    high_requests_per_second=12_520.0,
    interval_because=["3 repetitions found 12,000 to 12,500"],
    is_lower_bound=False,
    lower_bound_because=None,
    bottleneck="server CPU",
    bottleneck_because="the p95 time to first byte passed the target while the server CPU was full: 98 %",
    withheld=[],
    next_bottleneck="access line",
    resources=[
        Resource(
            name="server CPU",
            limit_requests_per_second=CAPACITY,
            utilisation=0.943,
            evidence="measured: busy share of the server's core, interpolated between steps",
        ),
        Resource(
            name="access line",
            limit_requests_per_second=15_900.0,
            utilisation=0.774,
            evidence="computed: M/G/1 processor sharing of the log's transfer sizes; TCP and IP headers not counted",
        ),
        Resource(
            name="helpers",
            limit_requests_per_second=None,
            utilisation=0.0,
            evidence="measured: busy time reported by 4 helpers over all requests of the rising load",
        ),
    ],
    doubling=[
        Doubling(resource="server CPU", requests_per_second=15_900.0, gain_fraction=0.293),
        Doubling(resource="access line", requests_per_second=KNEE, gain_fraction=0.0),
    ],
    log_average_requests_per_second=21.4,
    log_peak_requests_per_second=96.0,
    headroom_over_log_peak=128.1,
    sentences=[
        "This site can take 12,300 requests/s on this machine with the p95 time to first byte within 200 ms:"
        " 128 times the log's busiest minute (96 requests/s).",
        "The server CPU is the bottleneck; next is the access line, at 15,900 requests/s.",
        "Twice as much server CPU gives 15,900 requests/s (+29%).",
        "Twice as much access line gives 12,300 requests/s (+0%).",
    ],
)
LOG_IMPORT = {
    "compression": "gzip",
    "lines": 1_891_714,
    "bytes": 205_242_368,
    "malformed": 37,
    "malformed_examples": [
        {
            "line": 48_112,
            "reason": "unclosed_quote",
            "message": "the request is not closed by a quote",
            "text": 'host - - [09/Jul/1995:07:12:41 -0400] "GET /unfinished',
        },
        {"line": 90_220, "reason": "too_few_fields", "message": "too few fields", "text": "\u0000\u0001"},
    ],
    "requests": 1_846_310,
    "by_name_requests": 121_408,
    "skipped": {"with_query": 41_203, "other_method": 2_114, "failed": 2_050, "partial": 0},
    "out_of_order_lines": 12,
    "clients": 81_983,
    "documents": 11_482,
    "sessions": 233_710,
}
ENVIRONMENT = {
    "processor": "Example CPU at 2.6 GHz",
    "cores_usable": 2,
    "caches": ["L1 Data 32K", "L1 Instruction 32K", "L2 Unified 1024K"],
    "memory_bytes": 8_320_000_000,
    "kernel": "6.1.0",
    "virtualised": True,
    "hardware_counters": "unavailable: the kernel shows no cpu event source",
}


def example_characteristics() -> dict[str, Any]:
    """The log in figures and distributions."""
    sizes = [10 ** (1.5 + index * 0.1) for index in range(56)]
    cdf = [0.5 * (1 + math.erf((math.log(size) - 7.811) / (1.573 * math.sqrt(2)))) for size in sizes]
    ranks = sorted({round(10 ** (index * 0.1)) for index in range(41)})
    return {
        "table1": {
            "span_seconds": 86_280.0,
            "average_requests_per_second": 21.4,
            "peak_requests_per_second": 96.0,
            "requests_per_connection": 7.9,
            "files": 11_482,
            "files_total_bytes": 167_000_000,
            "requests": 1_846_310,
            "responses_total_bytes": 15_910_000_000,
            "data_97_percent_bytes": 7_100_000,
            "data_98_percent_bytes": 11_900_000,
            "data_99_percent_bytes": 27_300_000,
        },
        "transfer_sizes": {
            "count": 1_846_310,
            "zero_count": 0,
            "cdf": [
                {"size_bytes": size, "fraction": min(1.0, fraction * (1 + 0.05 * (1 - fraction)))}
                for size, fraction in zip(sizes, cdf, strict=True)
            ],
            "log_normal": {"mu": 7.811, "sigma": 1.573, "kolmogorov_smirnov": 0.031, "goodness": "fair"},
            "pareto_tail": {
                "alpha": 1.16,
                "minimum_bytes": 32_768,
                "tail_fraction": 0.05,
                "kolmogorov_smirnov": 0.024,
                "goodness": "close",
            },
        },
        "popularity": {
            "slope": 0.93,
            "kolmogorov_smirnov": 0.041,
            "goodness": "fair",
            "ranks": [{"rank": rank, "requests": max(1, round(150_000 / rank**0.93))} for rank in ranks],
        },
        "rhythm": {
            "hours": [
                {"hour": hour, "requests_per_second": 21 + 17 * math.sin((hour - 9) / 24 * 2 * math.pi)}
                for hour in range(24)
            ]
        },
    }


def example_demand_points() -> list[DemandPoint]:
    """Two repetitions of every size and number of clients."""
    plan = [
        (size, clients, False)
        for size in (500, 5_000, 15_000, 50_000, 150_000, 500_000, 1_500_000)
        for clients in (4, 16, 64)
    ]
    plan += [(size, 16, True) for size in (500, 5_000)]
    return [_demand_point(*row) for row in plan * 2]


def _demand_point(size: int, clients: int, new_connection: bool) -> DemandPoint:
    demand = (58e-6 + 1.62e-10 * size + (41e-6 if new_connection else 0)) * ANY.uniform(0.95, 1.07)
    law = demand * ANY.uniform(1.02, 1.15)
    return DemandPoint(
        size_bytes=size,
        clients=clients,
        connection="close" if new_connection else "keep-alive",
        requests=round(2 / law),
        errors=0,
        requests_per_second=1 / law,
        response_time_mean_seconds=clients * law,
        demand_by_response_law_seconds=law,
        demand_by_cpu_seconds=demand,
        server_core_busy_fraction=ANY.uniform(0.97, 1.0),
        generator_limited=size == 500 and clients == 4,
    )


def example_step(fraction: float) -> Step:
    """One step: processor sharing below capacity, a growing backlog above it."""
    offered = KNEE * fraction
    busy = min(offered / CAPACITY, 1.0)
    reached = min(offered, CAPACITY * 0.985)
    mean = LATENCY + (1 / CAPACITY) / max(1 - busy, 0.012) * (1 if busy < 1 else 80 * fraction)
    first = mean * (1.9 if busy < 0.93 else 14)
    closed = _prediction(offered, 2.4, LATENCY)
    simulated = _prediction(offered, 3.1, LATENCY * 1.04)
    return Step(
        offered_requests_per_second=offered,
        repetitions=3,
        requests_per_second=_spread(reached, 0.004),
        bytes_per_second=_spread(reached * 8_600, 0.01),
        time_to_first_byte_p95_seconds=_spread(first, 0.12),
        response_time_mean_seconds=_spread(mean, 0.08),
        response_time_p50_seconds=_spread(mean * 0.8, 0.08),
        response_time_p95_seconds=_spread(mean * 2.9, 0.12),
        response_time_p99_seconds=_spread(mean * 5.1, 0.2),
        error_fraction=Spread(median=0.0, minimum=0.0, maximum=0.0),
        connections_open_mean=_spread(offered * 0.07, 0.05),
        server_cpu_fraction=_spread(min(0.99, busy), 0.006),
        server_cpu_seconds_per_request=_spread(1 / CAPACITY, 0.02),
        server_core_busy_fraction=_spread(min(0.99, busy * 1.01), 0.004),
        generator_cpu_fraction=_spread(0.05 + 0.5 * busy, 0.03),
        generator_limited=False,
        steady=fraction < 1.05,
        within_target=fraction <= 1.0,
        held_out=fraction in HELD_OUT,
        closed_form=closed,
        simulation=simulated,
        closed_form_error=_error(closed, reached, mean),
        simulation_error=_error(simulated, reached, mean),
    )


def _prediction(offered: float, p95_over_mean: float, latency: float) -> Prediction:
    if offered >= CAPACITY:
        return Prediction(requests_per_second=CAPACITY, response_time_mean_seconds=None, response_time_p95_seconds=None)
    mean = latency + 1 / CAPACITY / (1 - offered / CAPACITY)
    return Prediction(
        requests_per_second=offered,
        response_time_mean_seconds=mean,
        response_time_p95_seconds=mean * p95_over_mean,
    )


def _error(said: Prediction, rate: float, mean: float) -> PredictionError:
    response, p95 = said.response_time_mean_seconds, said.response_time_p95_seconds
    return PredictionError(
        requests_per_second=said.requests_per_second / rate - 1,
        response_time_mean=None if response is None else response / mean - 1,
        response_time_p95=None if p95 is None else p95 / (mean * 2.9) - 1,
    )


def _spread(value: float, by: float) -> Spread:
    median = value * ANY.uniform(1 - by / 2, 1 + by / 2)
    return Spread(median=median, minimum=median * (1 - by), maximum=median * (1 + by))


def example_points() -> list[dict[str, Any]]:
    """The steps of three climbs, as much of a row as the report reads."""
    return [
        {"climb": f"repetition-{climb + 1}", "offered_requests_per_second": KNEE * fraction}
        for climb in range(3)
        for fraction in FRACTIONS
    ]


def example_timeline() -> list[dict[str, Any]]:
    """Three climbs of the staircase, ten rows a second; each step has a settling part that belongs to none."""
    rows = []
    for climb in range(3):
        for index, fraction in enumerate(FRACTIONS):
            for tick in range(40):
                step = example_step(fraction)
                rows.append(
                    {
                        "climb": f"repetition-{climb + 1}",
                        "time_seconds": index * 4.0 + tick / 10,
                        "step": index if tick >= 10 else None,
                        "requests_per_second": step.requests_per_second.median * ANY.uniform(0.9, 1.1),
                        "time_to_first_byte_intended_p95_seconds": step.time_to_first_byte_p95_seconds.median,
                        "server_cpu_fraction": step.server_cpu_fraction and step.server_cpu_fraction.median,
                        "generator_cpu_fraction": step.generator_cpu_fraction.median,
                        # A fifth of the windows lose 2 ms, the worst of them 30 ms; the generator's core loses nothing.
                        "server_core_lost_seconds": 0.03 if tick == 39 else 0.002 if tick % 5 == 4 else 0.0,
                        "generator_core_lost_seconds": 0.0,
                    }
                )
    return rows


if __name__ == "__main__":
    import sys

    print(json.dumps(str(write_example(Path(sys.argv[1])).path)))
