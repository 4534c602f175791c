"""Service demand against document size: two estimates per point, and the fitted g(x) = a x + b."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sojourn.assessment.summary import DemandFit, DemandPoint
from sojourn.report.assessment.run import Run
from sojourn.report.chart import Axis, Band, Chart, Mark, Missing, Point, Series, Trait
from sojourn.report.scales import logarithmic
from sojourn.text import format

IDENTIFIER = "plot-demand"
TITLE = "Service demand against document size"
CURVE_POINTS = 60
MARKS: tuple[Mark, ...] = ("disc", "square", "triangle", "diamond", "down")
"""Marks by number of clients, ascending; a sixth number starts over."""

Estimate = Callable[[DemandPoint], float | None]


def demand(run: Run) -> Chart | Missing:
    """CPU time and response law per request, log-log, with the fit and its confidence band."""
    points = run.summary.demand_points
    if not points:
        because = f"no closed-loop run on documents of one size was finished: {run.because_incomplete}"
        return Missing(IDENTIFIER, TITLE, because)
    estimates: list[tuple[str, int, Estimate]] = [
        ("CPU time", 1, lambda point: point.demand_by_cpu_seconds),
        ("response law", 2, lambda point: point.demand_by_response_law_seconds),
    ]
    series = [each for name, colour, of in estimates for each in _measured(name, colour, of, points)]
    fit = run.summary.demand_fit
    sizes = [float(point.size_bytes) for point in points]
    curves, bands = _fitted(fit, sizes) if fit else ([], [])
    values = [point.y for each in [*series, *curves] for point in each.points if point]
    return Chart(
        IDENTIFIER,
        TITLE,
        _caption(fit, points),
        Axis("document size", logarithmic(sizes, base=2), format.size),
        Axis("service demand per request", logarithmic(values), format.seconds),
        [*curves, *series],
        bands=bands,
        traits={"hollow": "a new connection per request", "crossed": "limited by the generator"},
        shape="wide",
    )


def _measured(name: str, colour: int, estimate: Estimate, points: list[DemandPoint]) -> Iterator[Series]:
    for index, clients in enumerate(sorted({point.clients for point in points})):
        marks = [
            Point(float(point.size_bytes), value, _text(point, value), trait=_trait(point))
            for point in points
            if point.clients == clients and (value := estimate(point)) is not None and value > 0
        ]
        if marks:
            yield Series(f"{name}, {clients} clients", colour, marks, mark=MARKS[index % len(MARKS)])


def _text(point: DemandPoint, value: float) -> str:
    return f"{format.seconds(value)} for {format.size(point.size_bytes)}, {point.connection}"


def _trait(point: DemandPoint) -> Trait:
    if point.generator_limited:
        return "crossed"
    return "hollow" if point.connection == "close" else "plain"


def _fitted(fit: DemandFit, sizes: list[float]) -> tuple[list[Series], list[Band]]:
    low, high = min(sizes), max(sizes)
    along = [low * (high / low) ** (index / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)]
    a, b = fit.seconds_per_byte, fit.fixed_seconds

    def curve(more: float) -> list[Point]:
        values = [(x, a.estimate * x + b.estimate + more) for x in along]
        return [Point(x, y, f"{format.seconds(y)} for {format.size(x)}") for x, y in values if y > 0]

    curves = [Series(f"fit of the {_basis(fit)}", 3, curve(0.0), line="solid")]
    if fit.connection_seconds:
        curves.append(Series("fit with a new connection", 3, curve(fit.connection_seconds.estimate), line="dashed"))
    # Values below zero have no logarithm: the band's lower edge stays at least at a hundredth of the curve.
    edges = [(x, max(a.low * x + b.low, (a.estimate * x + b.estimate) / 100), a.high * x + b.high) for x in along]
    return curves, [Band("95 % band of the fit", 3, edges)]


def _caption(fit: DemandFit | None, points: list[DemandPoint]) -> str:
    said = "Each mark is one closed-loop run."
    if all(point.demand_by_cpu_seconds is None for point in points):
        said += " Not measured: the CPU time of the server's processes."
    if fit is None:
        return said + " Not fitted: too few points can be trusted."
    said += (
        f" g(x) = {format.seconds(fit.seconds_per_byte.estimate * 1024)} per KiB"
        f" + {format.seconds(fit.fixed_seconds.estimate)}, from {fit.points_used} points"
        f" ({fit.points_left_out} left out); median error {format.percent(fit.relative_error_median)}."
        " The band joins the ends of both 95 % intervals, which is wider than a band at 95 %."
    )
    return said


def _basis(fit: DemandFit) -> str:
    return "CPU time" if fit.basis == "cpu" else "response law"
