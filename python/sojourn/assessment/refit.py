"""Fits the model of an assessed server again from several run folders together.

Pooled runs can determine parameters that a single one cannot; errors are measured on steps held out in turn. All runs
must be of the same server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sojourn import _native
from sojourn.assessment import demand
from sojourn.assessment.model import Mix, Station, fit_station
from sojourn.assessment.plausibility import CALIBRATION_PLAUSIBLE
from sojourn.assessment.prediction import is_below
from sojourn.assessment.summary import DemandFit, Step, Summary, read_summary
from sojourn.assessment.system_file import describe
from sojourn.calibration import service_demand
from sojourn.calibration.estimate import FOLDS, FloatArray, HeldOut, IndexArray, cross_validated, folds
from sojourn.calibration.fit import Fit
from sojourn.calibration.stages import UNSEEN, Stages, followed
from sojourn.failure import CouldNotRun
from sojourn.results.run_folder import RunFolder

START_FRACTION = 0.5
"""The file's initial rate, as a share of the overloaded server's throughput."""


def refit(runs: Sequence[Path], rate: float | None, seed: int, stages: Stages = UNSEEN) -> Fit:
    """Fits demand and station to all runs together.

    Args:
        runs: folders of assessments that reached the rising load.
        rate: requests/s to write into the system; None: half the capacity.
        seed: of the folds and the bootstrap.
        stages: shows how far it is.
    """
    folders = [RunFolder.open(run) for run in runs]
    summaries = [read_summary(folder) for folder in folders]
    _refuse_different_servers(runs, summaries)
    mix = _mix(followed(stages, "read", folders, len(folders)))
    points = [point for summary in summaries for point in summary.demand_points]
    fit = demand.fit(points, seed)
    below, overloaded = _steps(summaries)
    if len(below) < 2:
        raise CouldNotRun(
            "fewer than two steps lie below the knee: there is nothing to hold out",
            "assess again, or give more runs of this server",
        )
    stages.begin("station")
    station = fit_station(mix, fit, below, overloaded, seed)
    line, bent = (
        service_demand.fit(*demand.usable(points), seed, pieces, stages) for pieces in (1, service_demand.PIECES_MAX)
    )
    settings = summaries[0].settings
    system = describe(
        settings.server,
        mix,
        station,
        fit,
        rate or START_FRACTION * station.capacity,
        settings.access_line_bits_per_second,
    )
    return Fit(
        kind="runs",
        sources=[str(run) for run in runs],
        points=len(points) + len(below) + (overloaded is not None),
        estimates=_estimates(fit, station),
        held_out=[*filter(None, [line.held_out]), *_held_out(mix, fit, below, overloaded, seed, stages)],
        warnings=[*line.warnings, *_bend(line, bent), *_calibration(station)],
        system=system,
    )


def _refuse_different_servers(runs: Sequence[Path], summaries: Sequence[Summary]) -> None:
    for run, summary in zip(runs, summaries, strict=True):
        if not summary.demand_points or not summary.steps or summary.knee is None:
            raise CouldNotRun(f"{run} has no rising load to fit", "give runs that measured at least one step")
        if summary.settings.processors is not None:
            raise CouldNotRun(
                f"{run} was measured with a CPU limit, and its response times have no closed form to fit",
                "fit runs without --cpu-limit; the run's own system.toml has its capacity",
            )
    names = [" ".join(filter(None, [each.settings.server, each.settings.architecture])) for each in summaries]
    if len(set(names)) > 1:
        raise CouldNotRun(
            f"the runs are of different servers: {', '.join(sorted(set(names)))}", "fit the runs of each on their own"
        )


def _mix(folders: Iterable[RunFolder]) -> Mix:
    traces = []
    for folder in folders:
        path = folder.path / "trace.sojourn"
        try:
            traces.append(_native.Trace.load(str(path)))
        except (OSError, ValueError) as error:
            raise CouldNotRun(f"cannot read the log of the run: {path}: {error}", "assess the log again") from error
    return Mix(
        np.concatenate([trace.transfer_sizes().astype(float) for trace in traces]),
        np.concatenate([trace.first_in_session() for trace in traces]),
    )


def _steps(summaries: Sequence[Summary]) -> tuple[list[Step], Step | None]:
    """The steps below each run's knee, and among the overloaded ones the one with median throughput."""
    below: list[Step] = []
    beyond: list[Step] = []
    for summary in summaries:
        assert summary.knee is not None
        below += [step for step in summary.steps if is_below(step, summary.knee)]
        highest = summary.steps[-1]
        if not highest.within_target and not highest.generator_limited:
            beyond.append(highest)
    beyond.sort(key=lambda step: step.requests_per_second.median)
    return below, beyond[len(beyond) // 2] if beyond else None


def _held_out(
    mix: Mix, fit: DemandFit, below: Sequence[Step], overloaded: Step | None, seed: int, stages: Stages
) -> list[HeldOut]:
    splits = folds(range(len(below)), seed)
    stations = {
        fitted.tobytes(): fit_station(mix, fit, [below[index] for index in fitted], overloaded, seed)
        for fitted, _ in followed(stages, "held out", splits, len(splits))
    }

    def errors(quantity: str, measured_of: Callable[[Step], float]) -> HeldOut:
        measured = np.array([measured_of(step) for step in below])

        def predict(fitted: IndexArray, out: IndexArray) -> FloatArray:
            rates = [below[index].offered_requests_per_second for index in out]
            said = [stations[fitted.tobytes()].closed_form(rate) for rate in rates]
            # A station saturated at that step predicts no response time: an infinite error.
            return np.array([getattr(each, f"{quantity}_seconds") or np.inf for each in said])

        return cross_validated(quantity, f"steps below the knee in {FOLDS} parts", splits, measured, predict)

    return [
        errors("response_time_mean", lambda step: step.mean_for_model),
        errors("response_time_p95", lambda step: step.p95_for_model),
    ]


def _estimates(fit: DemandFit, station: Station) -> dict[str, object]:
    return {
        "fixed_seconds": fit.fixed_seconds.model_dump(),
        "seconds_per_byte": fit.seconds_per_byte.model_dump(),
        "connection_seconds": fit.connection_seconds and fit.connection_seconds.model_dump(),
        "basis": fit.basis,
        "r": "not reached" if station.r is None else station.r,
        "calibration_factor": station.calibration.model_dump(),
        "mean_demand_seconds": float(station.demands.mean()),
        "capacity_requests_per_second": station.capacity,
        "latency_seconds": station.mean_delays.latency_seconds,
        "interruption_seconds": station.mean_delays.interruption_seconds,
    }


def _bend(line: service_demand.ServiceDemandFit, bent: service_demand.ServiceDemandFit) -> list[str]:
    if not bent.demand.knees_bytes or line.held_out is None or bent.held_out is None:
        return []
    knees = ", ".join(f"{knee:,.0f}" for knee in bent.demand.knees_bytes)
    straight, pieces = line.held_out.relative_error_median, bent.held_out.relative_error_median
    return [
        f"The demand bends at {knees} bytes: on sizes held out a line is off by {straight:.0%} (median), pieces by "
        f"{pieces:.0%}. The file has the line, as the models of the runs have."
    ]


def _calibration(station: Station) -> list[str]:
    low, high = CALIBRATION_PLAUSIBLE
    factor = station.calibration.estimate
    if low <= factor <= high:
        return []
    return [
        f"The steps say that the mix costs {factor:.2g} times what the demands of single documents predict: the "
        "machine was disturbed. Do not use this file; assess again on a quiet machine."
    ]
