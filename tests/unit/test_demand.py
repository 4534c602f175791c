from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from sojourn.assessment import demand
from sojourn.assessment.measurement import Bench
from sojourn.assessment.summary import DemandPoint
from sojourn.engine.results import Generator, ServerUse, Summary
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord, Step
from sojourn.machine.cores import Cores
from sojourn.systems import Running
from sojourn.workload.site import FIXED_SIZES_BYTES


def point(
    size: int, seconds: float, connection: str = "keep-alive", clients: int = 16, **changes: object
) -> DemandPoint:
    fields: dict[str, object] = {
        "size_bytes": size,
        "clients": clients,
        "connection": connection,
        "requests": 1000,
        "errors": 0,
        "requests_per_second": 1 / seconds,
        "response_time_mean_seconds": seconds * clients,
        "demand_by_response_law_seconds": seconds,
        "demand_by_cpu_seconds": seconds,
        "server_core_busy_fraction": 1.0,
        "generator_limited": False,
    }
    return DemandPoint.model_validate(fields | changes)


def line(size: int) -> float:
    return 0.5e-9 * size + 6e-6


def test_an_exact_line_is_found() -> None:
    fit = demand.fit([point(size, line(size)) for size in FIXED_SIZES_BYTES], seed=1)
    assert fit.seconds_per_byte.estimate == pytest.approx(0.5e-9, rel=1e-3)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=1e-3)
    assert fit.basis == "cpu"


def test_an_outlier_moves_the_line_little_and_widens_the_interval() -> None:
    random = np.random.default_rng(3)
    points = [
        point(size, line(size) * random.normal(1, 0.02), clients=clients)
        for size in FIXED_SIZES_BYTES
        for clients in demand.CLIENTS
    ]
    points[4] = point(points[4].size_bytes, line(points[4].size_bytes) * 4)
    fit = demand.fit(points, seed=1)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=0.1)
    assert fit.fixed_seconds.low < 6e-6 < fit.fixed_seconds.high


def test_a_connection_costs_the_difference() -> None:
    points = [point(size, line(size)) for size in FIXED_SIZES_BYTES]
    points += [point(size, line(size) + 12e-6, "close") for size in demand.CONNECTION_SIZES_BYTES]
    fit = demand.fit(points, seed=1)
    assert fit.connection_seconds is not None
    assert fit.connection_seconds.estimate == pytest.approx(12e-6)


def test_without_cpu_time_only_saturated_points_count() -> None:
    points = [point(size, line(size), demand_by_cpu_seconds=None) for size in FIXED_SIZES_BYTES]
    points.append(point(500, 1.0, demand_by_cpu_seconds=None, server_core_busy_fraction=0.3))
    fit = demand.fit(points, seed=1)
    assert (fit.basis, fit.points_left_out) == ("response law", 1)
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=1e-3)


def test_one_size_is_not_enough() -> None:
    with pytest.raises(CouldNotRun, match="fewer than two"):
        demand.fit([point(500, 1e-5), point(500, 1e-5)], seed=1)


def test_points_with_fewer_answers_than_clients_are_left_out() -> None:
    points = [point(size, line(size)) for size in FIXED_SIZES_BYTES]
    points.append(point(500, 1.0, clients=64, requests=3))
    fit = demand.fit(points, seed=1)
    assert fit.points_left_out == 1
    assert fit.fixed_seconds.estimate == pytest.approx(6e-6, rel=1e-3)
    with pytest.raises(CouldNotRun, match="as many answers as clients"):
        demand.fit([point(size, line(size), requests=3) for size in FIXED_SIZES_BYTES], seed=1)


@dataclass(frozen=True)
class ScriptedBench(Bench):
    """Answers as many requests per second as it is told to, none before a time has passed."""

    answers_per_second: float = 100.0
    silent_seconds: float = 0.0
    errors_by_cause: dict[str, int] = field(default_factory=dict)
    lasted: list[float] = field(default_factory=list)

    def closed_loop(
        self,
        path: str,
        clients: int,
        duration_seconds: float,
        warm_up_seconds: float,
        connection: str,
        options: Any = (),
    ) -> RequestsRecord:
        """What the engine would say."""
        self.lasted.append(duration_seconds)
        requests = int(self.answers_per_second * max(0.0, duration_seconds - self.silent_seconds))
        because = None if requests else "the generator did not get its core"
        generator = Generator(limited=because is not None, limited_because=because)
        server = ServerUse(cpu_seconds_per_request=1e-5, core_busy_fraction=1.0)
        return RequestsRecord(
            tool="load",
            version="0",
            url=path,
            seed=1,
            connection=connection,
            complete=True,
            duration_seconds=duration_seconds,
            requests=requests,
            requests_per_second=requests / duration_seconds,
            errors=sum(self.errors_by_cause.values()),
            errors_by_cause=self.errors_by_cause,
            unfinished=clients,
            response_time_seconds=Summary(mean=0.01),
            generator=generator,
            steps=[Step(start_seconds=0.0, duration_seconds=duration_seconds, generator=generator, server=server)],
        )


def scripted(**settings: Any) -> ScriptedBench:
    return ScriptedBench(Running("http://127.0.0.1:1", "", [], None, []), Cores(None, None), 1, **settings)


def measured(bench: ScriptedBench) -> list[DemandPoint]:
    points: list[DemandPoint] = []
    demand.measure(bench, demand.Effort(1, 0.2, 0.1), points.append, lambda done, of: None)
    return points


def test_runs_with_too_few_answers_are_made_again_longer() -> None:
    bench = scripted(silent_seconds=0.25)
    points = measured(bench)
    # 0.2 s give nothing, 0.8 s 55 answers: enough for 4 and 16 clients; 64 clients have 295 of 3.2 s.
    assert {(each.clients, each.requests) for each in points} == {(4, 55), (16, 55), (64, 295)}
    assert sorted({round(seconds, 3) for seconds in bench.lasted}) == [0.2, 0.8, 3.2]


def test_where_nothing_is_ever_answered_it_says_for_how_long_and_why() -> None:
    bench = scripted(answers_per_second=0)
    with pytest.raises(CouldNotRun, match=r"succeeded within 3\.2 s: the generator did not get its core"):
        measured(bench)
    assert len(bench.lasted) == 3


def test_a_server_that_refuses_is_not_asked_for_longer() -> None:
    bench = scripted(answers_per_second=0, errors_by_cause={"status_4xx": 12})
    with pytest.raises(CouldNotRun, match=r"within 0\.2 s: 12 x status_4xx"):
        measured(bench)
    assert len(bench.lasted) == 1
