"""Queueing models of web systems for Python: laws, closed forms, exact solutions, networks, simulation.

Times are seconds, sizes bytes and rates 1/s throughout; arrays are one-dimensional and of `float64`. Everything is
computed by `sojourn._native`; this package gives it names, types and documentation, and imports nothing but NumPy.

    from sojourn import queueing

    sizes = queueing.log_normal(7.811, 1.573)
    server = queueing.Lps(arrival_rate=31.2, demand=sizes.affine(0.4851e-6, 21.55e-3), r=16)
    server.mean_response_time, server.validity()["note"]

    site = queueing.System.from_file("studies/systems/public-site.toml")
    queueing.predict(site)["bottleneck"]["station"]
    queueing.simulate(site, half_width=0.01)["response_time_seconds"]["p95"]

`docs/models.md` has the mathematics and how far each result holds.
"""

from sojourn.queueing.distributions import (
    Distribution,
    deterministic,
    empirical,
    erlang,
    exponential,
    hyper_exponential,
    log_normal,
    mixture,
    pareto,
)
from sojourn.queueing.fits import Fit, Interval, ParetoTail, UslFit, fit_laws, fit_moments, fit_tail, fit_usl
from sojourn.queueing.lps import ExactLps, Lps, Validity
from sojourn.queueing.results import (
    Bounds,
    Prediction,
    ResponseTime,
    Simulation,
    SolverAnswer,
    StationSimulation,
)
from sojourn.queueing.simulation import JOBS_MAX, Target, simulate, simulate_poisson, simulate_station
from sojourn.queueing.system import (
    ClassModel,
    Route,
    SettingError,
    StationModel,
    System,
    SystemFileError,
    Visit,
    predict,
    with_settings,
)

__all__ = [
    "JOBS_MAX",
    "Bounds",
    "ClassModel",
    "Distribution",
    "ExactLps",
    "Fit",
    "Interval",
    "Lps",
    "ParetoTail",
    "Prediction",
    "ResponseTime",
    "Route",
    "SettingError",
    "Simulation",
    "SolverAnswer",
    "StationModel",
    "StationSimulation",
    "System",
    "SystemFileError",
    "Target",
    "UslFit",
    "Validity",
    "Visit",
    "deterministic",
    "empirical",
    "erlang",
    "exponential",
    "fit_laws",
    "fit_moments",
    "fit_tail",
    "fit_usl",
    "hyper_exponential",
    "log_normal",
    "mixture",
    "pareto",
    "predict",
    "simulate",
    "simulate_poisson",
    "simulate_station",
    "with_settings",
]
