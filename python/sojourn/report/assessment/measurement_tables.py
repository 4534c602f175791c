"""Tables of everything besides the steps: demand runs, model, settings and environment."""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.assessment.held_out import AIMS, UTILISATION_MAX, as_it_was_error, distances
from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup
from sojourn.report.tables import absent, grid, pairs
from sojourn.results.records import Interval
from sojourn.text import format


def demand_points(run: Run) -> Markup:
    """One row per closed-loop run that measured service demand."""
    title = "Closed-loop runs on documents of one size"
    points = run.summary.demand_points
    if not points:
        return absent("table-demand", title, f"none was finished: {run.because_incomplete}")
    head = (
        "Size",
        "Clients",
        "Connection",
        "Requests/s",
        "Response time",
        "CPU demand",
        "Demand, response law",
    )
    rows = [
        (
            format.size(point.size_bytes),
            format.count(point.clients),
            point.connection,
            format.number(point.requests_per_second, 4),
            format.seconds(point.response_time_mean_seconds),
            format.seconds(point.demand_by_cpu_seconds),
            format.seconds(point.demand_by_response_law_seconds),
            format.percent(point.server_core_busy_fraction),
            format.count(point.errors),
            "generator limited" if point.generator_limited else "",
        )
        for point in sorted(points, key=lambda point: (point.size_bytes, point.clients, point.connection))
    ]
    return grid("table-demand", title, [(*head, "Server core", "Errors", "Marks")], rows)


def model(run: Run) -> Markup:
    """The parameters of the demand law and of the model, with their intervals."""
    fit, demand = run.summary.model, run.summary.demand_fit
    title = "Parameters"
    if fit is None and demand is None:
        return absent("table-model", title, f"nothing was fitted: {run.because_incomplete}")
    rows: list[tuple[str, str | None]] = []
    if demand is not None:
        rows += [
            ("Demand per KiB", _times(demand.seconds_per_byte, 1024)),
            ("Demand per request, fixed", _times(demand.fixed_seconds)),
            ("Demand of a new connection", _times(demand.connection_seconds)),
        ]
    if fit is not None:
        limit, factor = fit.jobs_in_service_limit, fit.calibration_factor
        rows += [
            ("Calibration factor", f"{factor.estimate:.3f} (95 %: {factor.low:.3f} to {factor.high:.3f})"),
            ("Mean demand of the log's mix, busy server", format.seconds(fit.mean_demand_seconds)),
            ("Squared variation of demand", format.number(fit.demand_squared_coefficient_of_variation)),
            ("Jobs in service at most", "no limit (processor sharing)" if limit is None else format.count(limit)),
            ("Latency, in the mean", format.seconds(fit.latency_seconds)),
            ("Latency, in the p95", format.seconds(fit.latency_p95_seconds)),
            ("Interruptions of the core, ν E[H²]", format.seconds(fit.interruption_seconds)),
            ("The same in the p95", format.seconds(fit.interruption_p95_seconds)),
            ("Wake-up of an idle server, in the mean", format.seconds(fit.wakeup_latency_seconds)),
            ("Wake-up of an idle server, in the p95", format.seconds(fit.wakeup_latency_p95_seconds)),
        ]
    return pairs("table-model", title, rows)


def validation(run: Run) -> Markup:
    """The model's errors at points it was not fitted to."""
    fit = run.summary.model
    title = "Accuracy of the model"
    if fit is None:
        return absent("table-validation", title, f"nothing was fitted: {run.because_incomplete}")
    rows = [
        ("Capacity while it keeps up", format.rate(fit.busy_capacity_requests_per_second)),
        ("Capacity when overloaded", format.rate(fit.capacity_requests_per_second)),
        ("Steps fitted", format.count(fit.steps_fitted)),
        ("Steps held out", format.count(fit.steps_held_out)),
        ("Held-out error, throughput", _largest(fit.held_out_error_requests_per_second)),
        ("Held-out error, mean response time", _largest(fit.held_out_error_response_time_mean)),
        ("Held-out error, p95 response time", _largest(fit.held_out_error_response_time_p95)),
    ]
    rows.append(("Held-out error, mean with the measured disturbance", _largest(as_it_was_error(run.summary))))
    for aim, found in zip(AIMS, distances(run.summary), strict=True):
        name = (
            f"Aim: {aim.name} within {format.percent(aim.fraction)} below {format.percent(UTILISATION_MAX)} utilisation"
        )
        rows.append((name, "no step held out there" if found is None else found.said))
    return pairs("table-validation", title, rows, " ".join(fit.notes) or None)


def settings(run: Run) -> Markup:
    """The requested settings, and the extent of the measurement."""
    asked, system = run.summary.settings, run.summary.system
    rows: list[tuple[str, str | None]] = [
        ("Server", f"{system.name} {system.version}" if system else f"{asked.server}, not started"),
        ("Command", " ".join(system.command) if system else format.NOT_MEASURED),
        ("Architecture", asked.architecture or "the server's own"),
        (
            "Cores: server, generator",
            f"{_core(system.server_core)}, {_core(system.generator_core)}" if system else format.NOT_MEASURED,
        ),
        ("Helpers", format.count(system.helpers) if system else format.NOT_MEASURED),
        ("Target, p95 time to first byte", format.seconds(asked.target_p95_seconds)),
        ("Access line", format.bandwidth(asked.access_line_bits_per_second)),
        ("Session gap", format.seconds(asked.session_gap_seconds)),
        ("Think time scale", format.factor(asked.think_scale)),
        ("Repetitions, seed", f"{asked.repetitions}, {asked.seed}"),
        ("Documents on the site", format.count(run.summary.site_documents)),
        ("Bytes on the site", format.size(run.summary.site_bytes)),
    ]
    return pairs("table-settings", "What was measured", rows)


def environment(run: Run) -> Markup:
    """`environment.json` as a table."""
    return environment_table(run.environment)


def environment_table(environment: Mapping[str, object] | None) -> Markup:
    """A table of the machine and settings recorded by a run."""
    title = "Environment"
    if environment is None:
        return absent("table-environment", title, "the run has no environment.json")
    rows = [(name.replace("_", " "), written(name, value)) for name, value in environment.items()]
    return pairs("table-environment", title, rows)


def _times(interval: Interval | None, by: float = 1.0) -> str:
    if interval is None:
        return format.NOT_MEASURED
    low, high = format.seconds(interval.low * by), format.seconds(interval.high * by)
    return f"{format.seconds(interval.estimate * by)} (95 %: {low} to {high})"


def _largest(error: float | None) -> str:
    return format.NOT_MEASURED if error is None else f"at most {format.percent(error)}"


def _core(core: int | None) -> str:
    return "not pinned" if core is None else f"core {core}"


def written(name: str, value: object) -> str:
    """Formats a value of an environment."""
    if name.endswith("_bytes") and isinstance(value, int):
        return format.size(value)
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
