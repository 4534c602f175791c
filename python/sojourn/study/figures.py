"""The metrics that a study's checks, plots and printed figures may use, with their formats.

A study that loads servers has the metrics of load runs; one with a model has times, rates and utilisations of its
stations and classes; one with programs declares the metrics it reads from their output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.loading import metrics
from sojourn.loading.metric import Quantity, written
from sojourn.study.declarations import Model, Program


@dataclass(frozen=True)
class Figure:
    """A metric with its name and quantity."""

    name: str
    quantity: Quantity
    label: str
    """The label of an axis."""

    def write(self, value: float | None) -> str:
        """Formats a value with its unit."""
        return written(self.quantity, value)


FOUND = "found"
"""The metric of a parameter search: the value found."""
BY_SIZE = "by_size"
_STATISTIC = "mean|p50|p90|p95|p99|p999"
OF_MODELS: tuple[tuple[str, Quantity, str, str], ...] = (
    (f"({_STATISTIC})", "time", "the response time over all classes", r"response time, \1"),
    ("rps", "rate", "jobs per second over all classes", "jobs per second"),
    (
        rf"class\.([\w-]+)\.({_STATISTIC})",
        "time",
        "class.NAME.mean: the response time of a class",
        r"response time of \1, \2",
    ),
    (r"class\.([\w-]+)\.rps", "rate", "class.NAME.rps: jobs of a class per second", r"jobs of \1 per second"),
    (
        r"route\.([\w-]+)\.([\w-]+)",
        "time",
        "route.CLASS.NAME: the mean response time of a route",
        r"mean response time, \2",
    ),
    (
        r"residence\.([\w-]+(?:\+[\w-]+)*)",
        "time",
        "residence.A+B: mean times per visit, added up",
        r"mean time per visit, \1",
    ),
    (
        r"share\.([\w-]+)",
        "fraction",
        "share.A: of the mean times per visit of all stations",
        r"share of the times per visit, \1",
    ),
    (r"utilisation\.([\w-]+)", "fraction", "utilisation.A", r"utilisation, \1"),
    (
        BY_SIZE,
        "time",
        "by_size: the mean response time of documents of the size `document`",
        "mean response time of the size",
    ),
)
"""Name patterns with their quantities, descriptions and labels."""


def find(name: str, model: Model | None, program: Program | None, *, is_loaded: bool = False) -> Figure:
    """Finds the metric of a study with this model or these programs; without either, of one that loads servers.

    For a study with a loaded server and a model or programs beside it, both kinds of metrics are available.

    Raises:
        CouldNotRun: no such metric; the hint lists them.
    """
    if program is not None and (name in program.metrics or not is_loaded):
        if name not in program.metrics:
            raise CouldNotRun(f"{name!r} is not a metric", f"declared are {', '.join(program.metrics)}")
        return Figure(name, program.metrics[name].quantity, name.replace("_", " "))
    found = None if model is None else _of_model(name, model)
    if found is not None:
        return found
    if model is None or is_loaded:
        metric = metrics.find(name)
        return Figure(name, metric.quantity, re.split("[,:]", metric.help)[0])
    known = [meaning if ":" in meaning else pattern.strip("()") for pattern, _, meaning, _ in OF_MODELS]
    raise CouldNotRun(f"{name!r} is not a metric of a model", f"there are {'; '.join(known)}; and {FOUND} with `find`")


def is_of_loads(name: str) -> bool:
    """Returns true for a metric of load runs."""
    try:
        metrics.find(name)
    except CouldNotRun:
        return False
    return True


def is_of_model(name: str, model: Model) -> bool:
    """Returns true for a metric of the model."""
    return _of_model(name, model) is not None


def _of_model(name: str, model: Model) -> Figure | None:
    if name == FOUND and model.find is not None:
        return Figure(name, "bandwidth" if model.find.endswith(".rate") else "number", model.find)
    for pattern, quantity, _, label in OF_MODELS:
        if match := re.fullmatch(pattern, name):
            return Figure(name, quantity, match.expand(label))
    return None
