"""The result of `sojourn predict`: every solver's answer with means by document size, and a simulation if requested."""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

from sojourn import queueing
from sojourn.planning.by_size import by_size
from sojourn.planning.evaluation import PREFERENCE
from sojourn.planning.system_document import SystemDocument
from sojourn.queueing import Prediction, ResponseTime, Simulation
from sojourn.queueing.results import Bottleneck, Bounds, Outcome

PERCENTILES = ("p50", "p90", "p95", "p99", "p999", "max")


class SizeMeans(TypedDict):
    """Mean response times of a class at quantiles of its document sizes."""

    quantiles: list[float]
    sizes_bytes: list[float]
    response_time_mean_seconds: list[float]


class SizedOutcome(Outcome):
    """A solver's outcome, with means by document size if it answered."""

    by_size: NotRequired[dict[str, SizeMeans]]


class Predicted(TypedDict):
    """The object of `--format json`."""

    system: str
    settings: list[str]
    by: str | None
    response_time_seconds: dict[str, float | None]
    bottleneck: Bottleneck
    bounds: Bounds | None
    solvers: dict[str, SizedOutcome]
    simulation: Simulation | None


def predicted(document: SystemDocument) -> Predicted:
    """Every solver's answer; None where a solver does not compute a figure."""
    prediction = queueing.predict(document.system)
    solvers = {
        name: SizedOutcome(basis=each["basis"], answer=each["answer"], refusal=each["refusal"])
        for name, each in prediction["solvers"].items()
    }
    for each in solvers.values():
        each["refusal"] = None if each["refusal"] is None else document.said(each["refusal"])
    for name, outcome in prediction["solvers"].items():
        answer = outcome["answer"]
        if answer is not None:
            solvers[name]["by_size"] = {
                each: {
                    "quantiles": list(found.quantiles),
                    "sizes_bytes": found.sizes_bytes.tolist(),
                    "response_time_mean_seconds": found.mean_seconds.tolist(),
                }
                for each, found in by_size(document.system, name, answer).items()
            }
    by, times = _preferred(prediction)
    return {
        "system": document.system.name,
        "settings": list(document.settings),
        "by": by,
        "response_time_seconds": times,
        "bottleneck": prediction["bottleneck"],
        "bounds": prediction["bounds"],
        "solvers": solvers,
        "simulation": None,
    }


def simulated_too(result: Predicted, simulation: Simulation) -> Predicted:
    """Adds a simulation, which takes precedence."""
    times = _completed(simulation["response_time_seconds"])
    return {**result, "by": "simulation", "response_time_seconds": times, "simulation": simulation}


def _preferred(prediction: Prediction) -> tuple[str | None, dict[str, float | None]]:
    """The response time over all classes, from the most exact solver that answered."""
    for name in PREFERENCE:
        outcome = prediction["solvers"].get(name)
        if outcome is not None and outcome["answer"] is not None:
            classes = list(outcome["answer"]["classes"].values())
            if len(classes) == 1:
                return name, _completed(classes[0]["response_time_seconds"])
            total = sum(each["throughput_per_second"] for each in classes)
            jobs = [each["throughput_per_second"] * each["response_time_seconds"]["mean"] for each in classes]
            # Means combine linearly; the percentiles of a mixture need the distributions.
            return name, _completed({"mean": sum(jobs) / total})
    return None, _completed({})


def _completed(times: ResponseTime) -> dict[str, float | None]:
    known = cast(dict[str, float | None], times)
    return {key: known.get(key) for key in ("mean", *PERCENTILES, "mean_half_width")}
