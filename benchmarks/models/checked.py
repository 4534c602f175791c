"""Checks solvers and simulator against the independent programs of `oracles/`: claimed and worst error.

    python -m benchmarks.models.checked --docs docs

Every answer must keep what its own label claims: `exact` means within the oracle's error, a proven bound means within
the bound, and an approximation must lie within the range that it names. If a label says that the error is not known,
the error is only reported. A simulated figure must lie within twice the half-width of its 95 % interval, because among
hundreds of intervals some miss by less than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.models import labels
from benchmarks.models.oracles import PERCENTILES
from benchmarks.models.oracles.models import Model, all_models
from sojourn import queueing
from sojourn.queueing.results import SolverAnswer
from sojourn.text import format

SIMULATOR = "simulate"
HALF_WIDTHS = 2.0
JOBS_MAX = 4_000_000
MEANS_WITHIN = 1e-6
"""The relative error allowed to an `exact` mean, in addition to the oracle's error."""
PERCENTILES_WITHIN = 1e-3


@dataclass(frozen=True)
class Check:
    """One figure of one answer, and the true value."""

    solver: str
    label: str
    model: str
    source: str
    figure: str
    expected: float
    obtained: float
    low: float | None
    """The bounds of the relative error that the label allows; None if it says that the error is not known."""
    high: float | None
    within: float = 0.0
    """The error of the true value itself."""

    @property
    def error(self) -> float:
        return self.obtained / self.expected - 1

    @property
    def beyond(self) -> float:
        """Returns by how much the error exceeds that of the true value; for a simulated figure in half-widths."""
        if self.solver == SIMULATOR and self.high:
            return abs(self.error) / (self.high / HALF_WIDTHS)
        return abs(self.error) - self.within

    @property
    def holds(self) -> bool:
        """Returns true if the error is as the label claims."""
        if self.low is None or self.high is None:
            return True
        return self.low - self.within <= self.error <= self.high + self.within


def check(model: Model, half_width: float = 0.01) -> Iterator[Check]:
    """Checks every answer to a model, figure by figure; simulates to this half-width or up to `JOBS_MAX`."""
    truths, system = model.truths(), queueing.System(model.text)
    for solver, outcome in queueing.predict(system)["solvers"].items():
        answer = outcome["answer"]
        if answer is not None:
            yield from _answered(model, solver, answer, truths)
    if model.simulated:
        simulated = queueing.simulate(system, half_width=half_width, jobs_max=JOBS_MAX, seed=20_261)
        yield from _simulated(model, simulated, truths)


def _answered(model: Model, solver: str, answer: SolverAnswer, truths: Mapping[str, float]) -> Iterator[Check]:
    for figure, expected in truths.items():
        obtained = _figure(answer, figure)
        if obtained is None:
            continue
        if figure in PERCENTILES:
            said = answer["percentiles"]
            bound = answer["percentiles_relative_error"]
            label = "percentiles: " + _label(said)
            allowed = labels.of_percentile(said, figure) if bound is None else (-bound, bound)
            if bound is not None:
                assert said != "exact" or bound <= PERCENTILES_WITHIN
            within = model.percentiles_within
        else:
            label = "means: " + _label(answer["means"])
            allowed, within = _range(answer["means"], figure), max(MEANS_WITHIN, model.within)
        low, high = allowed or (None, None)
        yield Check(solver, label, model.name, model.source, figure, expected, obtained, low, high, within)


def _simulated(model: Model, result: queueing.Simulation, truths: Mapping[str, float]) -> Iterator[Check]:
    for figure, expected in truths.items():
        found = _estimate(result, figure)
        if found is not None:
            obtained, half_width = found
            allowed = HALF_WIDTHS * half_width / expected
            within = model.percentiles_within if figure in PERCENTILES else model.within
            label = "95 % interval"
            yield Check(
                SIMULATOR, label, model.name, model.source, figure, expected, obtained, -allowed, allowed, within
            )


def _figure(answer: SolverAnswer, figure: str) -> float | None:
    kind, _, subject = figure.partition(" ")
    if kind == "residence":
        return answer["stations"][subject]["residence_time_seconds"]
    if kind == "loss":
        return answer["classes"]["c"]["loss"]["probability"]
    if kind == "throughput":
        return answer["classes"][subject or "c"]["throughput_per_second"]
    times: Mapping[str, Any] = answer["classes"][subject or "c"]["response_time_seconds"]
    return times[kind]  # type: ignore[no-any-return]


def _estimate(result: queueing.Simulation, figure: str) -> tuple[float, float] | None:
    """Returns the estimate with its half-width; None without an interval."""
    kind, _, subject = figure.partition(" ")
    if kind == "throughput":
        of_class = result["classes"][subject or "c"]
        found = of_class["throughput_per_second"], of_class["throughput_half_width_per_second"]
    elif kind == "residence":
        station = result["stations"][subject]
        found = station["residence_time_seconds"], station["residence_time_half_width_seconds"]
    elif kind == "loss":
        loss = result["classes"]["c"]["loss"]
        found = loss["probability"], loss["probability_half_width"]
    else:
        times: Mapping[str, Any] = result["classes"][subject or "c"]["response_time_seconds"]
        found = times[kind], times[f"{kind}_half_width"]
    value, half_width = found
    return None if half_width is None else (value, half_width)


def _range(means: str, figure: str) -> labels.Range | None:
    kind, _, subject = figure.partition(" ")
    if kind == "throughput":
        return labels.of_throughput(means)
    return labels.of_mean(means, subject if kind == "residence" else None)


def _label(said: str) -> str:
    """Returns the label without names of stations and other details that differ between models."""
    return re.sub(r"\b[a-z]: ", "", re.sub(r"-?\+?[\d.]+ %", "… %", re.sub(r"bounds .*", "bounds", said)))


def page(checks: Iterable[Check]) -> str:
    """Returns the results of the checks as Markdown."""
    found = list(checks)
    text = (Path(__file__).parent / "checked.md.template").read_text()
    return (
        text.replace("$figures", str(len(found)))
        .replace("$models", str(len({each.model for each in found})))
        .replace("$solvers", _solvers(found))
        .replace("$table", _models(found))
    )


def _solvers(found: list[Check]) -> str:
    lines = [
        "| solver | what it says of itself | figures | allowed | worst error found | in |",
        "|---|---|---|---|---|---|",
    ]
    for solver, label in dict.fromkeys((each.solver, each.label) for each in found):
        own = [each for each in found if (each.solver, each.label) == (solver, label)]
        worst = max(own, key=lambda each: each.beyond)
        lines.append(
            f"| `{solver}` | {label} | {len(own)} | {_allowed(worst)} | {_error(worst)} "
            f"| {worst.figure} of {worst.model} |"
        )
    return "\n".join(lines)


def _models(found: list[Check]) -> str:
    lines = ["| model | truth by | its own error at most | worst figure by solver |", "|---|---|---|---|"]
    for model, source in dict.fromkeys((each.model, each.source) for each in found):
        own = [each for each in found if each.model == model]
        by = []
        for solver in dict.fromkeys(each.solver for each in own):
            worst = max((each for each in own if each.solver == solver), key=lambda each: abs(each.error))
            by.append(f"`{solver}` {_percent(worst.error)} ({worst.figure})")
        within = max(each.within for each in own)
        lines.append(f"| {model} | {source} | {format.number(100 * within, 2)} % | {', '.join(by)} |")
    return "\n".join(lines)


def _allowed(each: Check) -> str:
    if each.solver == SIMULATOR:
        return f"{HALF_WIDTHS:g} half-widths"
    if each.low is None or each.high is None:
        return "not known, and said"
    if each.low == each.high == 0:
        return "none"
    return f"{_percent(each.low)} to {_percent(each.high)}"


def _error(each: Check) -> str:
    said = _percent(each.error)
    if each.solver == SIMULATOR:
        return f"{said}: {each.beyond:.1f} half-widths"
    return f"{said} (the truth within {format.number(100 * each.within, 2)} %)"


def _percent(fraction: float) -> str:
    if abs(fraction) < 1e-8:
        return "< 0.000001 %"
    digits = max(1, 1 - int(f"{abs(100 * fraction):e}".split("e")[1]))
    return f"{100 * fraction:+.{digits}f} %".replace("-", "−")


def _main(
    docs: Annotated[Path | None, typer.Option(help="Put the page here.")] = None,
    fast: Annotated[bool, typer.Option(help="Without the models that take minutes.")] = False,
) -> None:
    """Hold every solver and the simulator against independent programs."""
    found: list[Check] = []
    for model in all_models():
        if not (fast and model.slow):
            found += check(model)
            print(model.name, flush=True)
    if docs:
        (docs / "models-checked.md").write_text(page(found))
    wrong = [f"{each.solver}, {each.model}: {each.figure} {each.error:+.2e}" for each in found if not each.holds]
    if wrong:
        raise SystemExit("not as they say: " + "; ".join(wrong))


if __name__ == "__main__":
    typer.run(_main)
