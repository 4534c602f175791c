"""Makes a change and measures it: another server process on the same site, and a climb.

Each change has a folder, `verification/NAME`, with its prediction (written before anything of it is measured), its
points and its histograms.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from sojourn.assessment import demand, rising_load, steps
from sojourn.assessment.climbs import Climbs
from sojourn.assessment.knee import locate
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped
from sojourn.assessment.simulation import simulate_measured
from sojourn.assessment.steps import ClimbStep
from sojourn.assessment.summary import DemandFit, DemandPoint, Knee, Step, Verification, VerifiedLoad
from sojourn.assessment.verification.assessed import Assessed
from sojourn.assessment.verification.changes import CHANGES, LIGHT_FRACTIONS, Arrangement, Change, LightLoads
from sojourn.assessment.verification.comparison import at_load, compared, measured_at
from sojourn.assessment.verification.predictions import Expectation, served_at
from sojourn.assessment.verification.unchanged import Unchanged
from sojourn.engine.progress import ProgressLine, RequestsAdvance
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.results.run_folder import RunFolder
from sojourn.systems import Launch, Running

FOLDER = "verification"
REPETITIONS_MAX = 3
"""The most climbs of a changed system."""
COMPARED_FRACTIONS = (0.5, 0.84)
"""Loads at which response times are compared, as fractions of the predicted capacity."""
LIGHT_REPETITIONS = 3
"""Climbs of another server at light loads, from which other loads are predicted."""
NO_MODEL = "without a model there are no predictions to verify"
LINK_ADDRESS = "10.77.0.1"
"""The server's address behind a link."""
LINK_UNJUDGED = "the link's work on the server's core is part of the change"


class Stages(Protocol):
    """Shows a stage for each change."""

    def begin(self, name: str) -> None:
        """Ends the current stage and starts the next one."""

    def update(self, done: float, total: float | None = None, detail: str = "") -> None:
        """Says how far the current stage is."""

    def line(self, line: ProgressLine) -> None:
        """Passes on a line of the load that the stage makes."""

    def done(self, detail: str | None = None) -> None:
        """Ends the current stage; `detail` is its result in a few words."""


def verify(assessed: Assessed, names: Sequence[str], stages: Stages, keep: Callable[[Verification], None]) -> None:
    """Makes the changes one after the other; `keep` receives each as it progresses.

    If all are requested, those that do not apply to this server are skipped.

    Raises:
        Interrupted, KeyboardInterrupt: the person asked to stop; what was measured is kept.
    """
    for name in names:
        change = CHANGES[name]
        inapplicable = change.inapplicable(assessed)
        if inapplicable is not None and len(names) == len(CHANGES):
            continue
        stages.begin(name)
        made = Verification(change=name, says=change.says, unmade_because=inapplicable or change.unavailable(assessed))
        if made.unmade_because is None:
            one = _One(assessed, name, change, stages)
            try:
                made = one.predicted(made)
                made = one.measured(made)
            except (Interrupted, KeyboardInterrupt):
                keep(one.last(made).model_copy(update={"unmade_because": "interrupted"}))
                raise
            except ServerStopped as stop:
                made = one.last(made).model_copy(update={"unmade_because": str(stop)})
            except CouldNotRun as failure:
                made = one.last(made).model_copy(update={"unmade_because": failure.said})
        keep(made)
        stages.done(made.unmade_because or _in_short(made))


def unpredicted(names: Sequence[str]) -> list[Verification]:
    """The changes without predictions, where there is no model."""
    return [Verification(change=name, says=CHANGES[name].says, unmade_because=NO_MODEL) for name in names]


def expected_seconds(effort: rising_load.Effort) -> float:
    """About how long a change takes, unless steps are lengthened or measured again."""
    repetitions = min(REPETITIONS_MAX, effort.repetitions)
    unchanged = (repetitions + 1) * len(COMPARED_FRACTIONS)
    return (repetitions * len(rising_load.REPEATED_FRACTIONS) + unchanged) * effort.step_seconds


class Climbed(NamedTuple):
    """What a climb of a changed system showed."""

    knee: Knee
    steps: list[Step]
    measured: Mapping[float, Sequence[ClimbStep]]
    """The repetitions of each step, by offered requests/s."""
    disturbances: list[str]


@dataclass
class _One:
    """One change in progress."""

    assessed: Assessed
    name: str
    change: Change
    stages: Stages
    predicted_change: Verification | None = None
    expectation: Expectation | None = None
    disturbances: list[str] = field(default_factory=list)
    """Disturbances of the measurements behind the prediction."""

    @property
    def folder(self) -> Path:
        return self.assessed.folder.path / FOLDER / self.name

    def last(self, made: Verification) -> Verification:
        """The change in its present state."""
        return self.predicted_change or made

    def predicted(self, made: Verification) -> Verification:
        """Writes the prediction to the folder before the changed system is started."""
        self.disturbances += (f"in the assessment: {each}" for each in self.assessed.disturbances)
        self.expectation = expectation = self.change.expectation(self.assessed, self)
        made = made.model_copy(
            update={
                "basis": expectation.basis,
                "predicted_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
                "predicted_capacity_requests_per_second": expectation.capacity,
                "loads": list(_loads(expectation)),
                "disturbed_because": [*self.disturbances],
            }
        )
        RunFolder.create(self.folder).write_text("prediction.json", made.model_dump_json(indent=2) + "\n")
        self.predicted_change = made
        return made

    def measured(self, made: Verification) -> Verification:
        """Makes the change and adds the measurements to the prediction."""
        predicted = made.predicted_capacity_requests_per_second
        assert predicted is not None
        arrangement = self.change.arrangement(self.assessed)
        with ExitStack() as running:
            unchanged = None
            if self.expectation is not None and self.expectation.station is not None:
                same = [load.offered_requests_per_second for load in made.loads]
                rates = same if self.expectation.is_assessed_server else self._light_rates
                unchanged = self._unchanged(running, "unchanged", rates)
            alternate = unchanged.measure if unchanged else None
            climbed = self._climbed(arrangement, RunFolder(self.folder), predicted.estimate, alternate)
        made = made.model_copy(update={"loads": self._on_the_machine_as_it_was(made.loads, climbed, unchanged)})
        beside = steps.warnings(unchanged.climbs.rows) if unchanged else []
        disturbances = [*climbed.disturbances, *(f"in the unchanged server's loads: {each}" for each in beside)]
        return compared(made, climbed.knee, climbed.steps, disturbances, arrangement.processors or 1.0)

    def _unchanged(self, running: ExitStack, name: str, rates: Sequence[float]) -> Unchanged:
        """Starts the unchanged server, to measure these loads in requests/s."""
        assessed = self.assessed
        climbs = Climbs(RunFolder.create(self.folder / name), _effort(assessed, rates[-1]))
        server = running.enter_context(assessed.server.start(self._launch(assessed.launch, name)))
        return Unchanged(assessed, self._climb(server, climbs), climbs, rates)

    @property
    def _light_rates(self) -> list[float]:
        return [fraction * self.assessed.capacity for fraction in LIGHT_FRACTIONS]

    def _on_the_machine_as_it_was(
        self, loads: Sequence[VerifiedLoad], climbed: Climbed, unchanged: Unchanged | None
    ) -> list[VerifiedLoad]:
        assessed, expectation = self.assessed, self.expectation
        assert expectation is not None
        station, line = expectation.station, expectation.line
        sessions = assessed.sessions_of(climbed.measured, climbed.steps, station)

        def judged(load: VerifiedLoad) -> VerifiedLoad:
            step, rate = at_load(load, climbed.steps), load.offered_requests_per_second
            if step is None:
                return load
            if line is not None:
                said = line.at_step(step, sessions, served_at(assessed.station, rate), assessed.seed)
                return load.model_copy(update={"judged": said, "utilisation": rate / line.capacity})
            if station is None or unchanged is None:
                return load
            beside = at_load(load, unchanged.steps) if expectation.is_assessed_server else None
            if beside is not None:
                then, same = unchanged.as_fast_as(beside, station), measured_at(beside)
            else:
                then, same = station.slowed(unchanged.usually_slower), None
            said = simulate_measured(then, sessions, step, assessed.seed)
            filled = rate / min(then.capacity, then.busy_capacity)
            return load.model_copy(update={"unchanged": same, "judged": said, "utilisation": filled})

        return [judged(load) for load in loads]

    def climb(self, arrangement: Arrangement, name: str, capacity: float) -> Knee:
        """See `changes.Baselines`."""
        folder = RunFolder.create(self.folder / f"baseline-{name}")
        climbed = self._climbed(arrangement, folder, capacity)
        self.disturbances += (f"in the baseline: {each}" for each in climbed.disturbances)
        return climbed.knee

    def demand(self, arrangement: Arrangement, name: str) -> DemandFit:
        """See `changes.Baselines`."""
        points: list[DemandPoint] = []
        with arrangement.server.start(self._launch(arrangement.launch)) as server:
            bench = Bench(server, self.assessed.cores, self.assessed.seed)
            demand.measure(bench, self.assessed.effort.demand, points.append, lambda done, total: None)
        fitted = demand.fit(points, self.assessed.seed)
        folder = RunFolder.create(self.folder)
        folder.write_json(f"demand-{name}.json", [point.model_dump() for point in points])
        return fitted

    def light_loads(self, arrangement: Arrangement, name: str, rates: Sequence[float]) -> LightLoads:
        """See `changes.Baselines`."""
        folder = RunFolder.create(self.folder / f"light-loads-{name}")
        climbs = Climbs(folder, _effort(self.assessed, rates[-1]))
        with ExitStack() as running:
            clock = self._unchanged(running, "clock", self._light_rates)
            server = running.enter_context(arrangement.server.start(self._launch(arrangement.launch)))
            climb = self._climb(server, climbs)
            climb.at("warm-up", rates)
            for number in range(1, LIGHT_REPETITIONS + 1):
                clock.measure(number)
                climb.at(f"repetition-{number}", rates, draw=number)
        self.disturbances += (f"at light loads: {each}" for each in steps.warnings(climbs.rows))
        return LightLoads(steps.over_levels(climbs.levels()), clock.usually_slower)

    def _climb(
        self,
        server: Running,
        climbs: Climbs,
        link: tuple[str, ...] = (),
        alternate: Callable[[int], None] | None = None,
    ) -> rising_load.Climb:
        assessed = self.assessed
        return rising_load.Climb(
            # Behind a link there is this machine alone.
            bench=Bench(server, assessed.cores, assessed.seed, link=link, fleet=None if link else assessed.fleet),
            trace=assessed.trace,
            effort=climbs.effort,
            think_scale=assessed.sessions.think_scale,
            target_p95_seconds=assessed.target_p95_seconds,
            keep=climbs.keep,
            progress=self._show,
            alternate=alternate,
        )

    def _climbed(
        self,
        arrangement: Arrangement,
        folder: RunFolder,
        capacity: float,
        alternate: Callable[[int], None] | None = None,
    ) -> Climbed:
        assessed = self.assessed
        unjudged_because = LINK_UNJUDGED if arrangement.link else None
        climbs = Climbs(folder, _effort(assessed, capacity), arrangement.processors, unjudged_because)
        report = folder.path / "link.json"
        with arrangement.server.start(self._launch(arrangement.launch)) as server:
            link = (*arrangement.link, "--report", str(report)) if arrangement.link else ()
            if link:
                server.url = f"http://{LINK_ADDRESS}:{urlsplit(server.url).port}"
            climb = self._climb(server, climbs, link, alternate)
            # The link runs on the server's core, which this process otherwise avoids.
            with cores.also_on_server_core(assessed.cores) if link else nullcontext():
                climb.repeat(capacity)
        climbed = climbs.repetitions()
        knee = locate(climbed, assessed.target_p95_seconds)
        if knee is None:
            raise CouldNotRun(
                "the load generator was the limit at every load", "verify on a machine with less other work"
            )
        found = steps.over_levels(climbs.levels())
        # A link's own work on the server's core is not a disturbance.
        disturbances = _late(report) if link else steps.warnings(climbs.rows)
        return Climbed(knee, found, climbs.measured(), disturbances)

    def _show(self, progress: ProgressLine) -> None:
        self.stages.line(progress)
        if isinstance(progress, RequestsAdvance):
            self.stages.update(progress.progress, 1.0, f"{progress.requests_per_second:,.0f} requests/s")

    def _launch(self, launch: Launch, name: str = "") -> Launch:
        # Servers leave files in their work folder, so each change has its own.
        work = launch.work / "-".join(filter(None, (FOLDER, self.name, name)))
        work.mkdir(exist_ok=True)
        return replace(launch, work=work)


def _effort(assessed: Assessed, capacity: float) -> rising_load.Effort:
    """Fewer repetitions, and longer steps for a slow system."""
    effort = assessed.effort.rising_load.for_capacity(capacity)
    return replace(effort, repetitions=min(REPETITIONS_MAX, effort.repetitions))


def _in_short(made: Verification) -> str:
    predicted, knee = made.predicted_capacity_requests_per_second, made.measured_knee
    assert predicted is not None
    assert knee is not None
    bound = "at least " if knee.is_lower_bound else ""
    return f"{predicted.estimate:,.0f} predicted, {bound}{knee.requests_per_second:,.0f} measured: {made.verdict}"


def _loads(expectation: Expectation) -> Iterable[VerifiedLoad]:
    for fraction in COMPARED_FRACTIONS:
        rate = fraction * expectation.capacity.estimate
        yield VerifiedLoad(
            offered_requests_per_second=rate,
            fraction_of_predicted_capacity=fraction,
            predicted=expectation.at(rate),
            measured=None,
            error=None,
        )


def _late(report: Path) -> list[str]:
    if not report.is_file() or not json.loads(report.read_text())["limited"]:
        return []
    return ["The link was late: one packet in a hundred by more than its limit."]
