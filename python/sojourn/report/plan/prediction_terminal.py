"""Prints predictions: the solvers' answers side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from rich.console import Console
from rich.text import Text

from sojourn.planning.prediction import Predicted, SizeMeans
from sojourn.queueing import ResponseTime, Simulation
from sojourn.queueing.results import Figure as SimulatedFigure
from sojourn.queueing.results import SolverAnswer, StationAnswer, StationEstimate
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format

PercentileName = Literal["p50", "p95", "p99"]
PERCENTILES_SHOWN: tuple[PercentileName, ...] = ("p50", "p95", "p99")
_HALF_WIDTHS: Mapping[PercentileName, Literal["p50_half_width", "p95_half_width", "p99_half_width"]] = {
    "p50": "p50_half_width",
    "p95": "p95_half_width",
    "p99": "p99_half_width",
}

Answers = Mapping[str, SolverAnswer | Simulation]
"""Answers by solver."""
Figure = Callable[[StationAnswer | StationEstimate], str]
FOUND_FULL: tuple[str, Figure] = ("found full", lambda station: format.percent(station["full_probability"]))


def print_prediction(result: Predicted, console: Console) -> None:
    """Prints the solvers' answers side by side, the refusals with their reasons, and the bottleneck."""
    console.print(Text(result["system"], style="bold"))
    for setting in result["settings"]:
        console.print(Text(f"with {setting}", style="dim"))
    answers: dict[str, SolverAnswer | Simulation] = {
        name: outcome["answer"] for name, outcome in result["solvers"].items() if outcome["answer"]
    }
    if result["simulation"]:
        answers["simulation"] = result["simulation"]
    if answers:
        _print_classes(result, answers, console)
        _print_stations(answers, console)
    else:
        console.print(Text("NO ANSWER: every solver refused; the reasons are below", style="bold red"))
    refusals = [(name, each["refusal"]) for name, each in result["solvers"].items() if each["refusal"]]
    rows = [(f"{name} refused", reason) for name, reason in refusals]
    for name, outcome in result["solvers"].items():
        if outcome["answer"]:
            rows += [(name, outcome["basis"]), (f"{name} means", outcome["answer"]["means"])]
    rows += _percentiles_rest_on(result)
    print_pairs([*_first(result), *rows], console)
    if not result["simulation"]:
        console.print(Text("percentiles of every class: --simulate", style="dim"))


def _print_classes(result: Predicted, answers: Answers, console: Console) -> None:
    shown = table("class", "", *answers)
    shown.columns[1].justify = "left"
    for name in next(iter(answers.values()))["classes"]:
        classes = [answer["classes"][name] for answer in answers.values()]
        shown.add_row(Text(name), "jobs/s", *(format.number(each["throughput_per_second"]) for each in classes))
        losses = [each["loss"] for each in classes]
        if any(each["probability"] > 0 for each in losses):
            shown.add_row("", "offered", *(format.number(each["offered_per_second"]) for each in losses))
            shown.add_row("", "lost", *(format.percent(each["probability"]) for each in losses))
        times = [each["response_time_seconds"] for each in classes]
        shown.add_row("", "mean R", *map(_mean, times))
        for key in PERCENTILES_SHOWN:
            if any(_percentile(each, key) is not None for each in times):
                shown.add_row("", key, *(format.seconds(_percentile(each, key)) for each in times))
        for label, means in _by_size(result, name, answers):
            shown.add_row("", label, *map(format.seconds, means))
    console.print(shown)


def _percentiles_rest_on(result: Predicted) -> Iterator[tuple[str, str]]:
    # All solvers with an answer give the same percentiles.
    answer = next((outcome["answer"] for outcome in result["solvers"].values() if outcome["answer"]), None)
    if answer is None:
        return
    error = answer["percentiles_relative_error"]
    proven = "" if answer["percentiles"] != "exact" or not error else f", within {format.percent(error)}"
    yield "percentiles", answer["percentiles"].replace("no percentiles: ", "none: ") + proven


def _by_size(result: Predicted, name: str, answers: Answers) -> Iterator[tuple[str, list[float | None]]]:
    columns = [_means(result, solver).get(name) for solver in answers]
    known = next((each for each in columns if each), None)
    for index, quantile in enumerate(known["quantiles"] if known else ()):
        size = format.size(known["sizes_bytes"][index] if known else None)
        means = [each["response_time_mean_seconds"][index] if each else None for each in columns]
        yield f"mean R at {size} (p{100 * quantile:g})", means


def _means(result: Predicted, solver: str) -> Mapping[str, SizeMeans]:
    outcome = result["solvers"].get(solver)
    return outcome.get("by_size", {}) if outcome else {}


def _percentile(times: ResponseTime, key: PercentileName) -> float | None:
    return times.get(key)


def _mean(times: ResponseTime) -> str:
    return _with_interval(times["mean"], times.get("mean_half_width"), format.seconds)


def _print_stations(answers: Answers, console: Console) -> None:
    figures: list[tuple[str, Figure]] = [
        ("utilisation", lambda station: format.percent(station["utilisation"])),
        ("jobs present", lambda station: format.number(station["queue_mean"])),
        ("time per visit", lambda station: format.seconds(station["residence_time_seconds"])),
    ]
    shown = table("station", "", *answers)
    shown.columns[1].justify = "left"
    for name in next(iter(answers.values()))["stations"]:
        stations = [answer["stations"][name] for answer in answers.values()]
        limited = stations[0]["utilisation"] is not None
        finite = stations[0]["full_probability"] is not None
        # A delay station has no utilisation.
        of_station = [*(figures if limited else figures[1:]), *([FOUND_FULL] if finite else [])]
        for index, (label, figure) in enumerate(of_station):
            shown.add_row(Text("" if index else name), label, *map(figure, stations))
    console.print(shown)


def _first(result: Predicted) -> list[tuple[str, str]]:
    bottleneck, bounds = result["bottleneck"], result["bounds"]
    saturation = ", ".join(
        f"{name} at {format.number(load['saturation_throughput_per_second'])} jobs/s"
        for name, load in sorted(bottleneck["stations"].items(), key=lambda item: -item[1]["demand_per_job_seconds"])
        if load["saturation_throughput_per_second"]
    )
    rows = [
        ("bottleneck", bottleneck["station"] or "none: no station is limited by itself"),
        ("next", bottleneck["next"] or "no other station is limited"),
        ("saturation", saturation or "not by a station alone"),
    ]
    if bottleneck["growth_factor_max"]:
        rows.append(("room", f"open traffic can grow {format.factor(bottleneck['growth_factor_max'])}"))
    if bounds:
        rows.append(
            ("N*", f"{format.number(bounds['saturation_users'])} users: with more, {bottleneck['station']} queues")
        )
        low, high = bounds["throughput_min_per_second"], bounds["throughput_max_per_second"]
        rows.append(("bounds", f"{format.number(low)} to {format.number(high)} jobs/s (operational bounds)"))
    return rows


def print_simulation(result: Simulation, console: Console) -> None:
    """Prints a simulation's result: response times by class, then the stations."""
    finite = any(station["full_probability"] is not None for station in result["stations"].values())
    lost = ["offered", "lost"] if finite else []
    classes = table("class", *lost, "jobs/s", "mean R", "p50", "p95", "p99")
    for name, found in result["classes"].items():
        times, loss = found["response_time_seconds"], found["loss"]
        cells = [format.number(loss["offered_per_second"])] if finite else []
        cells += [format.percent(loss["probability"])] if finite else []
        cells.append(
            _with_interval(found["throughput_per_second"], found["throughput_half_width_per_second"], format.number)
        )
        cells += [_mean(times)]
        cells += [_with_interval(times[key], times[_HALF_WIDTHS[key]], format.seconds) for key in PERCENTILES_SHOWN]
        classes.add_row(Text(name), *cells)
    stations = table("station", "utilisation", "visits/s", "queue", "residence", *(["found full"] if finite else []))
    for name, station in result["stations"].items():
        cells = [
            _with_interval(station["utilisation"], station["utilisation_half_width"], format.percent),
            _with_interval(
                station["throughput_per_second"], station["throughput_half_width_per_second"], format.number
            ),
            _with_interval(station["queue_mean"], station["queue_mean_half_width"], format.number),
            _with_interval(
                station["residence_time_seconds"], station["residence_time_half_width_seconds"], format.seconds
            ),
        ]
        cells += [format.percent(station["full_probability"])] if finite else []
        stations.add_row(Text(name), *cells)
    console.print(classes, stations)
    stop = "half-width reached" if result["converged"] else f"not converged: stopped by {result['stop']}"
    console.print(Text(f"{result['jobs']:,} jobs; {stop}; Little's law holds to {result['little_relative_error']:.1e}"))
    for line in _verdicts(result["figures"]):
        console.print(Text(line), soft_wrap=True)


def _verdicts(figures: Mapping[str, SimulatedFigure]) -> Iterator[str]:
    """Requested figures that have not converged, then figures without an interval, by reason."""
    without: dict[str, list[str]] = {}
    for name, figure in figures.items():
        if figure["asked_for"] and not figure["converged"]:
            yield f"{name} has not converged: {figure['reason']}"
        elif figure["relative_half_width"] is None:
            without.setdefault(figure["reason"] or "", []).append(name)
    for reason, names in without.items():
        yield f"no interval for {', '.join(names)}: {reason}"


def _with_interval(value: float | None, half_width: float | None, shown: Callable[[float | None], str]) -> str:
    return shown(value) + (f" ± {shown(half_width)}" if half_width is not None else "")
