"""Converts distributions between JMT and system files, a row per family that both have.

JMT names them by Java class and parameters; system files use tables with times in seconds. Where only the moments can
be converted, a warning says so: to JMT as a Gamma distribution, from JMT as a log-normal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sojourn.queueing import System, system_file
from sojourn.text.toml import Table

Parameters = Mapping[str, float]
Law = Table | str

SCV_ROUNDING = 1e-9


@dataclass(frozen=True)
class JmtLaw:
    """A distribution in JMT's form."""

    name: str
    java_class: str
    parameters: tuple[tuple[str, float], ...]
    """Parameters by name; `r` of an Erlang distribution is an integer."""


@dataclass(frozen=True)
class Moments:
    """The mean in seconds, and the squared coefficient of variation."""

    mean: float
    scv: float


def moments(law: Law) -> Moments:
    """The moments of a distribution of times, parsed like a system file."""
    probe = {
        "stations": {"probe": {"discipline": "is", "demand": law}},
        "classes": {"probe": {"rate": "1/s", "route": ["probe"]}},
    }
    visit = System(system_file.write(probe)).classes[0].routes[0].visits[0]
    return of_visit(visit.demand_mean_seconds, visit.demand_second_moment_seconds2)


def of_visit(mean: float, second: float) -> Moments:
    """Computes them from the first two moments."""
    scv = second / mean**2 - 1.0 if mean > 0 else 0.0
    return Moments(mean, scv if scv > SCV_ROUNDING else 0.0)


def to_jmt(law: Law | None, known: Moments) -> tuple[JmtLaw, bool]:
    """The distribution in JMT's form, and whether it is the same; for `None` only its moments are known."""
    mean, scv = known.mean, known.scv
    if scv == 0.0:
        return JmtLaw("Deterministic", "DeterministicDistr", (("t", mean),)), True
    name = law.get("law") if isinstance(law, Mapping) else None
    plain = isinstance(law, Mapping) and "shift" not in law
    if plain and name == "exponential":
        return JmtLaw("Exponential", "Exponential", (("lambda", 1.0 / mean),)), True
    if plain and name == "erlang":
        stages = round(1.0 / scv)
        return JmtLaw("Erlang", "Erlang", (("alpha", stages / mean), ("r", stages))), True
    if plain and name == "log-normal":
        variance = math.log1p(scv)
        return JmtLaw("Lognormal", "Lognormal", (("mu", math.log(mean) - variance / 2), ("sigma", variance**0.5))), True
    if plain and name == "hyper-exponential":
        # Balanced means: each branch contributes half of the mean.
        first = (1.0 + math.sqrt((scv - 1.0) / (scv + 1.0))) / 2
        return _hyper_exponential(first, 2 * first / mean, 2 * (1 - first) / mean), True
    if plain and name == "mixture" and isinstance(law, Mapping) and "scale" not in law:
        parts = law["parts"]
        if len(parts) == 2 and all(part["law"] == "exponential" for part in parts):
            rates = [1.0 / moments({key: part[key] for key in part if key != "weight"}).mean for part in parts]
            share = parts[0]["weight"] / sum(part["weight"] for part in parts)
            return _hyper_exponential(share, *rates), True
    return JmtLaw("Gamma", "GammaDistr", (("alpha", 1.0 / scv), ("beta", scv * mean))), False


def from_jmt(java_class: str, parameters: Parameters) -> tuple[Law, bool] | None:
    """The distribution in a system file's form, and whether it is the same; `None` if there is none."""
    if java_class == "GammaDistr":
        return _from_gamma(parameters)
    rule = _FROM_JMT.get(java_class)
    return (rule(parameters), True) if rule else None


def _hyper_exponential(share: float, first: float, second: float) -> JmtLaw:
    return JmtLaw("Hyperexponential", "HyperExp", (("p", share), ("lambda1", first), ("lambda2", second)))


def _from_hyper_exponential(parameters: Parameters) -> Law:
    share, first, second = (parameters[name] for name in ("p", "lambda1", "lambda2"))
    parts = [
        {"weight": weight, "law": "exponential", "mean": system_file.time(1.0 / rate)}
        for weight, rate in ((share, first), (1.0 - share, second))
    ]
    return {"law": "mixture", "parts": parts}


def _from_gamma(parameters: Parameters) -> tuple[Law, bool]:
    shape, mean = parameters["alpha"], system_file.time(parameters["alpha"] * parameters["beta"])
    stages = round(shape)
    if stages >= 1 and abs(stages - shape) <= SCV_ROUNDING:
        return {"law": "erlang", "mean": mean, "stages": stages}, True
    return {"law": "log-normal", "mean": mean, "scv": 1.0 / shape}, False


_FROM_JMT: dict[str, Callable[[Parameters], Law]] = {
    "Exponential": lambda given: {"law": "exponential", "mean": system_file.time(1.0 / given["lambda"])},
    "Erlang": lambda given: {
        "law": "erlang",
        "mean": system_file.time(given["r"] / given["alpha"]),
        "stages": int(given["r"]),
    },
    "HyperExp": _from_hyper_exponential,
    "DeterministicDistr": lambda given: system_file.time(given["t"]),
    "Lognormal": lambda given: {"law": "log-normal", "mu": given["mu"], "sigma": given["sigma"], "unit": "s"},
}
