"""Tries the fitted network at loads that the fit did not see: those of the log's own mix around the knee.

The draw of random arrivals is not part of the system: the very requests of each step are simulated, from the empty
system on, because a few seconds near the knee have no steady state. Nor are the moments in which the machine stood
still: they are simulated, too. What is left to chance are the requests' sizes and waits. They are drawn many times. The
errors that such a draw would have if it had been measured are those that chance alone gives a model that is right; what
an error is more than that is the model's.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.applications import stalls
from sojourn.applications.diagnosis import NORMAL
from sojourn.applications.fitting import Fitted, beside, due_in, rates_of, slowed
from sojourn.applications.simulation import Figures, simulated
from sojourn.applications.summary import EndpointFigures, HeldOutFigure, StepFigures
from sojourn.calibration.estimate import FloatArray
from sojourn.results.records import Interval

QUANTILES = (0.025, 0.975)
RESAMPLES = 2_000


@dataclass(frozen=True)
class Errors:
    """The relative errors of one kind of figure, over endpoints and loads."""

    found: FloatArray
    """Of predicted against measured; shape (figures,)."""
    by_chance: FloatArray
    """If a replication had been measured; shape (figures, replications)."""

    @property
    def median(self) -> float:
        return float(np.median(self.found))

    def median_by_chance(self) -> Interval:
        """The median error that chance alone gives a model that is right."""
        medians = np.median(self.by_chance, axis=0)
        low, high = (float(each) for each in np.quantile(medians, QUANTILES))
        return Interval(estimate=_root_mean_square(medians), low=low, high=high)

    def median_beyond_chance(self, seed: int) -> Interval:
        """What chance leaves of the median error; the interval by the bootstrap, over figures and replications.

        The squares of independent errors add up, and so do those of their medians. All figures of a replication come
        from the same draw, since those of one step wait for each other.
        """
        if not self.by_chance.any():
            return Interval(estimate=self.median, low=self.median, high=self.median)
        random, (figures, replications) = np.random.default_rng(seed), self.by_chance.shape
        rows = random.integers(0, figures, (RESAMPLES, figures))
        found = np.median(self.found[rows], axis=1)
        columns = random.integers(0, replications, (RESAMPLES, 1))
        left = _beyond(found, np.median(self.by_chance[rows, columns], axis=1))
        low, high = (float(each) for each in np.quantile(left, QUANTILES))
        estimate = float(_beyond(np.array(self.median), np.array(self.median_by_chance().estimate)))
        return Interval(estimate=estimate, low=min(low, estimate), high=max(high, estimate))


@dataclass(frozen=True)
class HeldOut:
    """Predictions beside the measurements at held-out loads."""

    figures: Sequence[HeldOutFigure]
    errors: Mapping[str, Errors]
    """Of `throughput`, `mean` and `p95`, where something was predicted and measured."""


def tried(found: Fitted, seed: int) -> HeldOut:
    """Predictions for the requests of held-out steps beside the measurements, by endpoint and load.

    Steps at the same load are combined, weighted by their requests.
    """
    loads = defaultdict[float, list[StepFigures]](list)
    for step in found.unseen:
        loads[load_of(step)].append(step)
    figures = []
    errors = defaultdict[str, list[tuple[float, FloatArray]]](list)
    for load, steps in sorted(loads.items()):
        told = [_again(found, step, seed) for step in steps]
        for name in found.network.endpoints:
            measured = [each for step in steps for each in step.endpoints if each.name == name]
            rows = [
                (each[name], own.requests_per_second)
                for each, own in zip(told, measured, strict=True)
                if each is not None and name in each and own.response_time_mean_seconds is not None
            ]
            is_told = bool(rows) and len(rows) == sum(each.response_time_mean_seconds is not None for each in measured)
            means = _weighted([(each.means, weight) for each, weight in rows]) if is_told else None
            p95s = _weighted([(each.p95s, weight) for each, weight in rows]) if is_told else None
            due = statistics.mean(rates_of(step).get(name, 0.0) for step in steps)
            figure = HeldOutFigure(
                offered_requests_per_second=load,
                endpoint=name,
                measured_per_second=statistics.mean(each.requests_per_second for each in measured),
                predicted_per_second=due if is_told else None,
                measured_mean_seconds=_mean(measured, "response_time_mean_seconds"),
                predicted_mean_seconds=None if means is None else float(means.mean()),
                measured_p95_seconds=_mean(measured, "response_time_p95_seconds"),
                predicted_p95_seconds=None if p95s is None else float(p95s.mean()),
                measured_mean_known_to=None if means is None else _spread(means),
                measured_p95_known_to=None if p95s is None else _spread(p95s),
            )
            figures.append(figure)
            for what, seen, drawn in (
                # Nothing of the number of requests that were due is left to chance.
                ("throughput", figure.measured_per_second, np.array([due]) if is_told else None),
                ("mean", figure.measured_mean_seconds, means),
                ("p95", figure.measured_p95_seconds, p95s),
            ):
                if seen and drawn is not None:
                    errors[what].append((abs(float(drawn.mean()) / seen - 1), np.abs(drawn.mean() / drawn - 1)))
    return HeldOut(figures, {what: Errors(*map(np.array, zip(*rows, strict=True))) for what, rows in errors.items()})


def load_of(step: StepFigures) -> float:
    """The load in requests/s as held-out figures name it."""
    return round(step.offered_requests_per_second, 3)


def not_judged_because(figures: Sequence[HeldOutFigure], what: str) -> str:
    """The reason why there is no error of `throughput`, `mean` or `p95`."""
    figure = "per_second" if what == "throughput" else f"{what}_seconds"
    told = [each for each in figures if getattr(each, f"predicted_{figure}") is not None]
    return "not measured" if told else "not predicted, as the model cannot take these loads beside the other programs"


def _again(found: Fitted, step: StepFigures, seed: int) -> Mapping[str, Figures] | None:
    """The same requests, simulated."""
    if not step.measured_seconds:
        return None
    network, stalled = beside(found.network, step, found.tiers), stalls.find(found.network, step, found.tiers)
    return simulated(slowed(network, stalled.slower), due_in(step, seed), step.measured_seconds, seed, stalled)


def _weighted(rows: Sequence[tuple[FloatArray, float]]) -> FloatArray:
    """The mean over rows with weights, by replication."""
    figures, weights = zip(*rows, strict=True)
    mean: FloatArray = np.average(figures, axis=0, weights=weights)
    return mean


def _spread(figures: FloatArray) -> float:
    """How far from their mean, relative, one of them may be by chance (95 %)."""
    return NORMAL * float(figures.std() / figures.mean())


def _mean(measured: Sequence[EndpointFigures], figure: str) -> float | None:
    rows = [(getattr(each, figure), each.requests_per_second) for each in measured]
    known = [(value, weight) for value, weight in rows if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _beyond(error: FloatArray, chance: FloatArray) -> FloatArray:
    left: FloatArray = np.sqrt(np.maximum(0.0, error**2 - chance**2))
    return left


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
