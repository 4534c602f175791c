"""Solves one point by a model: a system file with a cell's settings, by an analytic solver or simulation.

Simulations of a repetition share a seed, so that cells see the same jobs; other repetitions draw others. An analytic
solver gives the same result in all repetitions. A simulation may have the arrivals of the load beside it instead of
its own.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from sojourn import __version__, queueing
from sojourn.failure import CouldNotRun
from sojourn.planning.by_size import mean_of_sizes
from sojourn.planning.evaluation import Evaluator
from sojourn.planning.parameters import parameter
from sojourn.planning.search import smallest_unconfirmed
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import parse_target
from sojourn.queueing import Simulation, SolverAnswer, System
from sojourn.study.answers import Answered
from sojourn.study.by_size import simulated_mean
from sojourn.study.declarations import SIMULATION, SYSTEM, FittedParameter, Model
from sojourn.study.document import Study
from sojourn.study.figures import BY_SIZE, FOUND, is_of_model
from sojourn.study.folder import Record
from sojourn.study.load_beside import Load, LoadsBeside
from sojourn.study.points import Point, Settings, filled
from sojourn.text import quantity, toml
from sojourn.text.toml import read_text

METRICS = ("mean", "p50", "p95", "p99", "rps")
"""Metrics stored for every point where available, besides those that the study's checks and plots use."""
FITTED_FACTOR_MAX = 4.0
"""A fitted parameter is sought up to so many times its value in the file, and down to that part of it."""
FITTED_WIDTH = 1e-4
"""The relative width to which it is found."""
UNMEASURED = "unmeasured"
"""The class of requests that are due before or after the measured time: they keep stations busy, but do not count."""


@dataclass
class ModelPoints:
    """Solves the points of a study with the system file `system`, whose text goes wherever the points are solved."""

    study: Study
    system: Path
    text: str = ""
    loads: LoadsBeside | None = None
    """The loads whose arrivals the model has."""
    _simulated: dict[tuple[str, int], Simulation] = field(default_factory=dict)
    """Cached simulations by system and seed: cells that differ only in their metrics share one."""

    def __post_init__(self) -> None:
        self.text = self.text or read_text(self.system, "give a system file (TOML)")

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_simulated": {}}

    def __call__(self, point: Point) -> Record:
        """See `runner.Measure`."""
        of_system = self.study.system(point.settings[SYSTEM]).options
        settings = [*self.model.settings, *of_system]
        of_load: Record = {}
        try:
            if self.model.fitted is not None:
                load = self._loads.fitted(point)
                of_load = dict(load.doubts)
                of_load["fitted"] = self._fitted(settings, self.model.fitted, load, point)
                settings.append(of_load["fitted"])
            metrics = self._metrics(self._document(point.settings, settings), point)
        except CouldNotRun as error:
            return {**_record({}, error.what + (f"; {error.hint}" if error.hint else "")), **of_load}
        return {**_record(metrics), **of_load}

    @property
    def model(self) -> Model:
        assert self.study.model is not None
        return self.study.model

    def _document(self, factors: Settings, settings: Iterable[str]) -> SystemDocument:
        return SystemDocument.parse(self.text, str(self.system), [filled(each, factors) for each in settings])

    def _fitted(self, settings: Sequence[str], to: FittedParameter, load: Load, point: Point) -> str:
        """The setting with which the simulated mean is the measured one at the load that the parameter is fitted to."""
        document = self._document(load.settings, settings)
        sought = parameter(document, to.parameter)

        def beyond(value: float) -> float:
            answered = self._with_arrivals(document.set(sought.setting(value)), load, _seed(self.study, point))
            mean = answered.times["mean"]
            assert mean is not None, "it has requests"
            return mean - load.mean_seconds

        least, most = sought.present / FITTED_FACTOR_MAX, sought.present * FITTED_FACTOR_MAX
        if beyond(least) * beyond(most) > 0:
            raise CouldNotRun(
                f"the measured mean, {load.mean_seconds:.3g} s, does not follow from any {to.parameter} within a "
                f"factor of {FITTED_FACTOR_MAX:g} of {sought.text(sought.present)}",
                "set it nearer",
            )
        return sought.setting(brentq(beyond, least, most, rtol=FITTED_WIDTH))

    @property
    def _loads(self) -> LoadsBeside:
        assert self.loads is not None, "loads are beside the model"
        return self.loads

    def _metrics(self, document: SystemDocument, point: Point) -> dict[str, float | None]:
        names = [name for name in self.study.metrics() if is_of_model(name, self.model)]
        solver = self.study.system(point.settings[SYSTEM]).solver
        assert solver is not None
        seed = _seed(self.study, point)
        unstable = None if self.model.arrivals or FOUND in names else document.system.unstable_station()
        if unstable is not None:
            raise CouldNotRun(f"the station {unstable} is unstable", "give it less traffic")
        special: dict[str, float | None] = {}
        if FOUND in names:
            special[FOUND] = self._found(solver, document, point.settings, seed)
        if BY_SIZE in names:
            special[BY_SIZE] = self._by_size(solver, document, point.settings, seed)
        plain = [name for name in names if name not in special]
        if not plain:
            return special
        # With the arrivals of a load the rate is given.
        asked = [name for name in _each_once(METRICS, plain) if name != "rps" or self.model.arrivals is None]
        if solver != SIMULATION:
            answered = Answered.of_solver(document.system, solver, _answer(solver, document))
        elif self.model.arrivals is None:
            answered = Answered.of_simulation(document.system, self._simulate(document.system, seed))
        else:
            answered = self._with_arrivals(document, self._loads.of(point), seed)
        return special | {name: answered.value(name) for name in asked}

    def _with_arrivals(self, document: SystemDocument, load: Load, seed: int) -> Answered:
        """Simulates the requests of a load."""
        system, name, due = document.system, str(self.model.arrivals), np.asarray(load.due_seconds)
        if [each.name for each in system.classes] != [name] or system.document(name) is not None:
            raise CouldNotRun(f"{name} is not the system's only class, or has documents", "give it Poisson arrivals")
        is_measured = (due >= 0) & (due < self.study.duration_seconds)
        if not is_measured.all():
            system = System(_with_class_like(document.text, name, UNMEASURED))
        arrivals = {name: due[is_measured], UNMEASURED: due[~is_measured]}
        traces = {each: (times, np.ones(times.size)) for each, times in arrivals.items() if times.size}
        answered = Answered.of_simulation(system, queueing.simulate(system, seed=seed, traces=traces))
        return answered.of_class(name)

    def _simulate(self, system: System, seed: int) -> Simulation:
        key = (system.text, seed)
        if key not in self._simulated:
            model = self.model
            result = queueing.simulate(system, half_width=model.half_width, jobs_max=model.jobs_max, seed=seed)
            if not result["complete"]:
                raise KeyboardInterrupt
            self._simulated[key] = result
        return self._simulated[key]

    def _by_size(self, solver: str, document: SystemDocument, settings: Settings, seed: int) -> float:
        if self.model.document is None:
            raise CouldNotRun(f"{BY_SIZE} needs a size", 'give the model document = "{size}"')
        size = float(quantity.size_bytes(filled(self.model.document, settings)))
        system = document.system
        if solver == SIMULATION:
            return simulated_mean(system, size, self.model.jobs_max, seed)
        if len(system.classes) != 1:
            raise CouldNotRun(f"{BY_SIZE} is of a system with one class", "ask for class.NAME.mean")
        return float(mean_of_sizes(system, solver, _answer(solver, document), system.classes[0], [size])[0])

    def _found(self, solver: str, document: SystemDocument, settings: Settings, seed: int) -> float:
        model = self.model
        if model.find is None or model.target is None:
            raise CouldNotRun(f"{FOUND} needs a parameter and a target", "give the model `find` and `target`")
        target, loaded = parse_target(filled(model.target, settings), document)
        sought = parameter(loaded, model.find)
        evaluator = Evaluator(target.metric, seed=seed, using="simulation" if solver == SIMULATION else "auto")
        value = smallest_unconfirmed(evaluator, loaded, sought, target.limit_seconds)
        if value is None:
            raise CouldNotRun(f"no value of {model.find} meets {target.text}")
        return quantity.bits_per_second(f"{value:.9f}{sought.unit}") if model.find.endswith(".rate") else value


def _answer(solver: str, document: SystemDocument) -> SolverAnswer:
    solvers = queueing.predict(document.system)["solvers"]
    if solver not in solvers:
        raise CouldNotRun(f"there is no solver {solver!r} for it", f"one of {', '.join([*solvers, SIMULATION])}")
    answer = solvers[solver]["answer"]
    if answer is None:
        raise CouldNotRun(document.said(str(solvers[solver]["refusal"])))
    return answer


def _seed(study: Study, point: Point) -> int:
    return study.seed * 1000 + point.repetition


def _with_class_like(text: str, name: str, other: str) -> str:
    """A system file with another class like `name`."""
    content = tomllib.loads(text)
    content["classes"][other] = content["classes"][name]
    return "\n".join(f"{toml.key(each)} = {toml.inline(value)}" for each, value in content.items())


def _each_once(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for each in names for name in each))


def _record(metrics: dict[str, float | None], failed: str | None = None) -> Record:
    return {
        "failed": failed,
        "generator_limited": None,
        "server_version": __version__,
        # JSON has no NaN, so unknown values are null.
        "metrics": {name: None if value is None or math.isnan(value) else value for name, value in metrics.items()},
        "counters": {},
    }
