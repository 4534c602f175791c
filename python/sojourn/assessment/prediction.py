"""Predicts steps and compares with measurements: which steps are held out, and the error of each solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sojourn.assessment.held_out import UTILISATION_MAX
from sojourn.assessment.model import Mix, Quota, Station, fit_station, with_times
from sojourn.assessment.simulation import (
    Sessions,
    core_speed,
    fit_to_simulation,
    simulate_measured,
    with_simulated_delays,
    with_speeds,
)
from sojourn.assessment.summary import DemandFit, Knee, Model, Prediction, PredictionError, Step
from sojourn.calibration.estimate import FloatArray


def predict(
    mix: Mix,
    sessions: Sessions,
    demand_fit: DemandFit,
    steps: Sequence[Step],
    knee: Knee,
    seed: int,
    progress: Callable[[int, int], None],
    quota: Quota | None = None,
) -> tuple[Model | None, list[Step], Station | None]:
    """Fits the model to some steps and predicts them all; no model without a step below the knee."""
    unfitted, steps = steps, _hold_out(steps, knee)
    below = [step for step in steps if not step.held_out and is_below(step, knee)]
    overloaded = [step for step in steps if not step.held_out and not step.within_target]
    if not below:
        return None, list(unfitted), None
    sessions = at_measured_speeds(sessions, steps, mix.demands(demand_fit), has_quota=quota is not None)
    closed = fit_station(mix, demand_fit, below, overloaded[0] if overloaded else None, seed, quota)
    if quota is None:
        station = fit_to_simulation(closed, sessions, below, seed)
    else:
        # A throttled server's times are determined by its quota, so they do not show the added delays.
        light = [step for step in below if not is_throttled(step, quota)] or below
        station = closed = with_simulated_delays(closed, sessions, with_times(light), seed)
    predicted = []
    told = with_times(steps)
    for index, step in enumerate(steps):
        predicted.append(_with_predictions(step, closed, station, sessions, seed + index, has_times=step in told))
        progress(index + 1, len(steps))
    return _model(station, predicted, knee), predicted, station


def at_measured_speeds(sessions: Sessions, steps: Sequence[Step], demands: FloatArray, *, has_quota: bool) -> Sessions:
    """The sessions with the speed that the server's core had in each repetition (`with_speeds`)."""
    usual = {
        step.offered_requests_per_second: step.own_cpu_undisturbed if has_quota else step.own_cpu_for_model
        for step in steps
    }
    return with_speeds(sessions, demands, usual)


def is_below(step: Step, knee: Knee) -> bool:
    """True if the server sustained the step within the target, and the generator was not the limit."""
    rate = step.offered_requests_per_second
    return step.within_target and not step.generator_limited and rate <= knee.high


def is_throttled(step: Step, quota: Quota) -> bool:
    """True if the server used so much of its quota that it was throttled at times."""
    return step.server_cpu_fraction is not None and step.server_cpu_fraction.median >= UTILISATION_MAX * quota.share


def _hold_out(steps: Sequence[Step], knee: Knee) -> list[Step]:
    # Every other step below the knee is fitted, starting with the lowest; of those beyond it only the highest.
    held_out = []
    below = 0
    for index, step in enumerate(steps):
        if is_below(step, knee):
            held_out.append(below % 2 == 1)
            below += 1
        else:
            is_overloaded = not step.within_target and not step.generator_limited
            held_out.append(not (is_overloaded and index == len(steps) - 1))
    return [step.model_copy(update={"held_out": held}) for step, held in zip(steps, held_out, strict=True)]


def _with_predictions(
    step: Step, closed: Station, station: Station, sessions: Sessions, seed: int, *, has_times: bool
) -> Step:
    rate = step.offered_requests_per_second
    closed_form = _as_it_was(closed.closed_form(rate), closed, step)
    simulation = _as_it_was(simulate_measured(station, sessions, step, seed), station, step)
    return step.model_copy(
        update={
            "server_core_speed": core_speed(sessions, rate),
            "closed_form": closed_form,
            "simulation": simulation,
            "closed_form_error": _error(closed_form, step, has_times=has_times),
            "simulation_error": _error(simulation, step, has_times=has_times),
        }
    )


def _as_it_was(said: Prediction, station: Station, step: Step) -> Prediction:
    added = station.interrupted(step.offered_requests_per_second, step.server_core_lost_squared)
    mean = said.response_time_mean_seconds
    if added is None or mean is None:
        return said
    return said.model_copy(update={"response_time_mean_as_it_was_seconds": mean + added})


def _error(said: Prediction, step: Step, *, has_times: bool) -> PredictionError:
    def relative(predicted: float | None, measured: float) -> float | None:
        return None if predicted is None or not has_times else predicted / measured - 1.0

    throughput = said.requests_per_second / step.throughput_for_model - 1.0
    return PredictionError(
        requests_per_second=throughput,
        response_time_mean=relative(said.response_time_mean_seconds, step.mean_for_model),
        response_time_p95=relative(said.response_time_p95_seconds, step.p95_for_model),
    )


def _model(station: Station, steps: Sequence[Step], knee: Knee) -> Model:
    held_out = [step for step in steps if step.held_out and not step.generator_limited]
    below = [step for step in held_out if is_below(step, knee)]

    def worst(of: Callable[[PredictionError], float | None], among: Sequence[Step]) -> float | None:
        errors = [of(step.simulation_error) for step in among if step.simulation_error is not None]
        return max((abs(error) for error in errors if error is not None), default=None)

    mean = float(station.demands.mean())
    return Model(
        jobs_in_service_limit=station.r,
        mean_demand_seconds=mean,
        demand_squared_coefficient_of_variation=float(station.demands.var()) / mean**2,
        calibration_factor=station.calibration,
        latency_seconds=station.mean_delays.latency_seconds,
        interruption_seconds=station.mean_delays.interruption_seconds,
        latency_p95_seconds=station.p95_delays.latency_seconds,
        interruption_p95_seconds=station.p95_delays.interruption_seconds,
        wakeup_latency_seconds=station.mean_delays.wakeup_seconds,
        wakeup_latency_p95_seconds=station.p95_delays.wakeup_seconds,
        processor_share=station.quota.share if station.quota else 1.0,
        wakeup_seconds=station.wakeup_seconds,
        background_fraction=station.background_fraction,
        busy_capacity_requests_per_second=station.busy_capacity,
        capacity_requests_per_second=station.capacity,
        steps_fitted=sum(not step.held_out for step in steps),
        steps_held_out=len(held_out),
        held_out_error_requests_per_second=worst(lambda error: error.requests_per_second, held_out),
        held_out_error_response_time_mean=worst(lambda error: error.response_time_mean, below),
        held_out_error_response_time_p95=worst(lambda error: error.response_time_p95, below),
        notes=_notes(steps),
    )


def _notes(steps: Sequence[Step]) -> list[str]:
    notes = [
        "Eq. 2.1 and 2.2 of the thesis are exact for r = 1, r = infinity and exponential demand; elsewhere they are "
        "approximations, and the closed form's p95 takes the waiting time as exponential.",
        "Held-out errors are the simulation's largest: throughput over all held-out steps, response times over those "
        "below the knee.",
    ]
    if any(step.server_core_speed is not None for step in steps):
        notes.append(
            "The simulation of a repetition has the speed that each core had in it, by the CPU time that requests cost."
        )
    if all(step.server_cpu_seconds_per_request is None for step in steps):
        notes.append("The server's CPU time could not be read: the calibration factor is 1, not fitted.")
    return notes
