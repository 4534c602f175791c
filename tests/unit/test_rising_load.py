"""The rising load: repetitions of the whole staircase, then again the steps that are not known well enough."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from sojourn.assessment.climbs import Climbs
from sojourn.assessment.measurement import Bench
from sojourn.assessment.rising_load import Climb, Effort, expected_seconds, unsettled
from sojourn.assessment.steps import warnings
from sojourn.engine.results import Generator, ServerUse, StepLimit, Summary, Unavailable
from sojourn.loading.record import RequestsRecord, Step
from sojourn.results.run_folder import RunFolder

KNEE = 1000.0
UNSTEADY = 740.0
EFFORT = Effort(repetitions=3, step_seconds=2.0, settle_seconds=0.5)


@dataclass(frozen=True)
class Measured:
    """A bench whose server saturates at the knee, and whose mean differs from draw to draw at one rate."""

    seed: int = 1
    others_fraction: float = 0.0
    climbs: list[list[float]] = field(default_factory=list)

    def rising_load(self, trace: Path, rates: list[float], options: list[str], progress: object) -> RequestsRecord:
        self.climbs.append(rates)
        return RequestsRecord.model_construct(steps=[self._step(rate) for rate in rates], seed=self.seed, timeline=None)

    def _step(self, rate: float) -> Step:
        mean = 1e-3 * (1 + 0.1 * self.seed) if rate == pytest.approx(UNSTEADY) else 1e-3
        limit: StepLimit | None = "throughput" if rate > KNEE else None
        return Step(
            start_seconds=0.0,
            duration_seconds=1.5,
            offered_requests_per_second=rate,
            requests_per_second=min(rate, KNEE),
            bytes_per_second=1e6,
            requests=1000,
            limit=limit,
            response_time_seconds=Summary(mean=mean, p50=mean, p95=mean, p99=mean),
            time_to_first_byte_intended_seconds=Summary(mean=mean, p50=mean, p95=mean, p99=mean),
            connections_open_mean=1.0,
            generator=Generator(limited=False, cpu_fraction=0.2),
            server=ServerUse(cpu_fraction=0.5, core_busy_fraction=0.5 + self.others_fraction),
            undisturbed=Unavailable(unavailable="made up"),
        )


def climb(bench: Measured, effort: Effort, climbs: Climbs) -> Climb:
    return Climb(
        bench=cast("Bench", bench),
        trace=Path(),
        effort=effort,
        think_scale=1.0,
        target_p95_seconds=0.2,
        keep=climbs.keep,
        progress=cast("Any", None),
    )


@pytest.mark.parametrize(("others", "repetitions"), [(0.1, 1), (0.3, 3)])
def test_beside_other_work_one_repetition_is_not_enough(tmp_path: Path, others: float, repetitions: int) -> None:
    effort = replace(EFFORT, repetitions=1)
    bench, climbs = Measured(others_fraction=others), Climbs(RunFolder.create(tmp_path / "run"), effort)
    climb(bench, effort, climbs).repeat(KNEE)
    assert len(climbs.repetitions()) == repetitions


@pytest.mark.parametrize(("is_quiet", "repetitions"), [(True, 1), (False, 3)])
def test_the_announced_time_knows_of_the_repetitions_beside_other_work(is_quiet: bool, repetitions: int) -> None:
    announced = expected_seconds(replace(EFFORT, repetitions=1), is_quiet=is_quiet)
    assert announced == expected_seconds(replace(EFFORT, repetitions=repetitions), is_quiet=True)


def test_steps_that_are_not_known_well_enough_are_measured_again_alone(tmp_path: Path) -> None:
    bench, climbs = Measured(), Climbs(RunFolder.create(tmp_path / "run"), EFFORT)
    climb(bench, EFFORT, climbs).repeat(KNEE)
    staircases, again = bench.climbs[: EFFORT.repetitions], bench.climbs[EFFORT.repetitions :]
    assert all(len(rates) == 9 for rates in staircases)
    # As many steps as the repetitions have, at the most.
    assert again == [[pytest.approx(UNSTEADY)]] * 27
    assert [len(steps) for steps in climbs.repetitions()] == [9] * 3
    counts = {step.offered_requests_per_second: len(level) for level in climbs.levels() for step in level}
    assert [rate for rate, count in counts.items() if count == 30] == [pytest.approx(UNSTEADY)]
    assert sorted(counts.values()) == [*[3] * 8, 30]


def test_something_else_is_measured_before_each_climb(tmp_path: Path) -> None:
    bench, climbs = Measured(), Climbs(RunFolder.create(tmp_path / "run"), EFFORT)
    order: list[int] = []
    replace(climb(bench, EFFORT, climbs), alternate=lambda number: order.append(len(bench.climbs))).repeat(KNEE)
    assert order == [*range(len(bench.climbs))]


@pytest.mark.parametrize(("failed", "again"), [(0, True), (1, True), (2, False)])
def test_a_rate_at_which_most_repetitions_kept_up_is_measured_again(failed: int, again: bool) -> None:
    level = [Measured(seed=seed).rising_load(Path(), [UNSTEADY], [], None).steps[0] for seed in range(4)]
    limited = [step.model_copy(update={"limit": "throughput"}) for step in level[:failed]]
    assert unsettled({UNSTEADY: limited + level[failed:]}) == ([UNSTEADY] if again else [])


def row(busy: float, own: float, wait: float) -> dict[str, float]:
    return {
        "server_core_busy_fraction": busy,
        "server_cpu_fraction": own,
        "generator_core_wait_fraction": wait,
    }


def test_a_quiet_machine_gives_no_warning() -> None:
    assert warnings([row(0.5, 0.45, 0.01), row(0.99, 0.95, 0.02)]) == []


def test_other_work_on_either_core_is_said() -> None:
    assert [text.split(" of the ")[0] for text in warnings([row(0.9, 0.4, 0.3)] * 3)] == [
        "Other processes used 50 %",
        "Other processes held the generator's core 30 %",
    ]


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert warnings([{"server_core_busy_fraction": None, "server_cpu_fraction": None}]) == []
