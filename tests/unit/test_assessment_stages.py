"""The stages of an assessment on made-up measurements: what it takes from the preflight, and what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from example_run import DEMAND_FIT, example_summary
from sojourn.assessment.choices import EffortName
from sojourn.assessment.model import Mix, Station
from sojourn.assessment.pipeline import _Assessment
from sojourn.assessment.request import EFFORTS, Request
from sojourn.machine import disturbance
from sojourn.machine.cores import Cores
from sojourn.machine.disturbance import CoreDisturbance, Disturbance
from sojourn.planning.system_document import SystemDocument
from sojourn.results.records import Interval
from sojourn.results.run_folder import RunFolder
from sojourn.systems import find
from sojourn.workload.log import LogOptions

ONE = Interval(estimate=1.0, low=1.0, high=1.0)
RUNNING = "http://192.0.2.1:8080"


class Silent:
    def begin(self, name: str) -> None: ...
    def done(self, detail: str | None = None) -> None: ...


def assessment(folder: Path, server: str = "sojourn") -> _Assessment:
    request = Request(
        log="access.log",
        server=find(server),
        architecture="amped",
        target_p95_seconds=0.2,
        access_line_bits_per_second=1e9,
        log_options=LogOptions(),
        think_scale=None,
        content_limit_bytes=10**9,
        work_dir=None,
        probe=False,
        seed=1,
        effort=EFFORTS[EffortName.quick],
    )
    return _Assessment(request, RunFolder.create(folder), cast("Any", Silent()), None)


@pytest.mark.parametrize("cores", [Cores(0, 1), Cores(None, None)])
@pytest.mark.parametrize(("server", "expected"), [("sojourn", 0.5), (RUNNING, None)])
def test_other_work_before_counts_on_the_core_of_a_server_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, cores: Cores, expected: float | None
) -> None:
    unknown = dict.fromkeys(set(CoreDisturbance.model_fields) - {"core", "role", "other_work_fraction", "top"})

    def measure(cores: Cores, *, starts_server: bool) -> Disturbance:
        roles = disturbance._roles(cores, starts_server=starts_server)
        work = {"generator": 0.1}
        return Disturbance(
            seconds=2.0,
            cores=[
                CoreDisturbance.model_validate(
                    {**unknown, "core": core, "role": role, "other_work_fraction": work.get(role, 0.5), "top": []}
                )
                for core, role in roles.items()
            ],
            quota_cores=None,
            throttled_seconds=None,
            unavailable={},
            sentences=[],
            is_quiet=False,
        )

    monkeypatch.setattr(disturbance, "measure", measure)
    made = assessment(tmp_path / "run", server)
    made.cores = cores
    made._check_machine()
    assert made._other_work_before() == expected


@pytest.mark.parametrize("low", [0.0, 1000.0])
def test_the_system_file_has_a_rate_although_the_line_is_too_slow_for_any(tmp_path: Path, low: float) -> None:
    made, example = assessment(tmp_path / "run"), example_summary()
    assert example.knee is not None
    assert example.answer is not None
    made.summary.demand_fit, made.summary.steps = DEMAND_FIT, example.steps
    made.summary.knee = example.knee.model_copy(update={"low": low})
    made.summary.answer = example.answer.model_copy(update={"largest_rate_requests_per_second": 0.0})
    made.mix = Mix(np.array([1e3, 2e4]), np.array([True, False]))
    demands = made.mix.demands(DEMAND_FIT)
    busy = float(demands.mean())
    made.station = Station(demands, None, ONE, 0.9 / busy)
    made.finish()
    document = SystemDocument.parse((tmp_path / "run" / "system.toml").read_text(), "system.toml")
    assert document.system.open_utilisations()["server"] == pytest.approx(low * busy or 0.45, rel=0.01)
