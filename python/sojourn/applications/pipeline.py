"""The stages of an application's assessment, from the log to the answer, including early ends."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence

from sojourn import __version__, interrupts
from sojourn.applications import baseline, load_definition, objectives, verdicts
from sojourn.applications.answer import conclude
from sojourn.applications.changes import Starting
from sojourn.applications.climb import CLIMB_FRACTIONS, Climb, Stopped, idle_in_words, log_mix, shares
from sojourn.applications.knee import locate
from sojourn.applications.objectives import Objective, Tried
from sojourn.applications.request import ApplicationRequest
from sojourn.applications.schedule import Schedule
from sojourn.applications.smoke_test import smoke_test
from sojourn.applications.steps import Step
from sojourn.applications.summary import (
    SUMMARY,
    ApplicationSummary,
    EndpointDescription,
    LeftOutRequests,
    StepFigures,
    TierDescription,
)
from sojourn.applications.traffic import Traffic
from sojourn.applications.verification import execution
from sojourn.applications.verification.execution import Carrying, in_words, not_restored
from sojourn.applications.verification.planned import parse
from sojourn.assessment.pipeline import Stages
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import Fleet
from sojourn.machine import cores
from sojourn.results.records import Interval
from sojourn.results.run_folder import RunFolder
from sojourn.text import format
from sojourn.tiers.watch import Watch

COVERED_MIN = 0.5
PREDICTIONS = "predictions.json"
"""The file of predictions, written before any change is made."""
TRIED_SHOWN_MAX = 5
"""How many requests that were tried once and answered otherwise are shown."""


def assess(
    request: ApplicationRequest, folder: RunFolder, stages: Stages, fleet: Fleet | None = None
) -> ApplicationSummary:
    """Runs all stages and returns the summary, complete or not, after writing it to the folder.

    Args:
        request: what is assessed.
        folder: where everything is written.
        stages: shows the progress.
        fleet: the machines that generate the load; this one if not given.

    Raises:
        CouldNotRun: before anything was measured.
    """
    assessment = _Assessment(request, folder, stages, fleet)
    try:
        assessment.run()
    except (Stopped, CouldNotRun, OSError) as ending:
        if not assessment.steps:
            raise ending if isinstance(ending, CouldNotRun) else CouldNotRun(_said(ending)) from ending
        assessment.summary.incomplete_because = _said(ending)
    except KeyboardInterrupt:
        if not assessment.steps:
            raise
        assessment.summary.incomplete_because = "interrupted"
    with interrupts.held(to_the_end=True):
        return assessment.finish()


def _said(ending: Stopped | CouldNotRun | OSError) -> str:
    if isinstance(ending, CouldNotRun):
        return ending.said
    return f"{ending} (usually a full disk)" if isinstance(ending, OSError) else str(ending)


class _Assessment:
    """The state of an assessment, which grows from stage to stage."""

    def __init__(self, request: ApplicationRequest, folder: RunFolder, stages: Stages, fleet: Fleet | None) -> None:
        self.request = request
        self.fleet = fleet
        self.folder = folder
        self.stages = stages
        self.started = time.monotonic()
        self.steps: list[tuple[Step, StepFigures]] = []
        self.top: StepFigures | None = None
        self.starting: Starting | None = None
        self.is_measured = self.is_concluded = False
        stages.begin("log" if request.scenario is None else "scenario")
        self.load = load_definition.of_request(request, folder.path)
        self.covered = self.load.covered
        self.objectives = [Objective.parse(text, self.covered.endpoints) for text in request.objectives]
        self.planned = [parse(text, self.covered.endpoints, request.tiers) for text in request.planned]
        self.summary = _begun(request, self.load)
        if request.required_users is not None:
            if not self.load.thinks:
                raise CouldNotRun(
                    "--at-users needs think times: without any, users make requests as fast as they are answered",
                    'give the scenario think times, as in think = "2s", or give --at-rate',
                )
            self.summary.required_requests_per_second = None
        elif self.objectives and self.summary.required_requests_per_second is None:
            raise CouldNotRun(
                "at which load do the objectives have to hold?", "give --at-rate, --at-users with a scenario, or a log"
            )
        visits = f", in {len(self.load.sessions)} sessions of the log" if self.load.sessions else ""
        stages.done(f"{len(self.covered.endpoints)} endpoints, {len(self.load.flows)} flows{visits}")

    def run(self) -> None:
        with self.load.users:
            self._run()

    def _run(self) -> None:
        request = self.request
        plan = cores.plan()
        self.stages.begin("tiers")
        with Watch(request.tiers, request.sources) as watch:
            self.summary.tiers = [
                TierDescription(
                    name=tier.name,
                    declared=str(tier),
                    command=watch.command(tier.name),
                    cores=sorted(watch.cores(tier.name)),
                    port=tier.port,
                )
                for tier in request.tiers
            ]
            self.stages.done(", ".join(f"{each.name}: {each.command or each.declared}" for each in self.summary.tiers))
            traffic = Traffic(
                request.target,
                self.load.flows,
                self.load.users,
                self.folder.path / "targets",
                plan.generator,
                request.seed,
                sessions=self.load.sessions,
                is_of_users=request.required_users is not None,
                fleet=self.fleet,
            )
            if self.load.users.log_in:
                self.stages.begin("login")
                self.summary.login = traffic.logged_in()
                self.stages.done(f"{self.load.users.count} users")
            self.stages.begin("each request once")
            tried = smoke_test(traffic)
            self.summary.warnings += [f"Tried once: {each}" for each in tried.wrong[:TRIED_SHOWN_MAX]]
            if len(tried.wrong) > TRIED_SHOWN_MAX:
                self.summary.warnings.append(f"Tried once: {len(tried.wrong) - TRIED_SHOWN_MAX} others, too.")
            self._leave_out(tried.left_out)
            self.stages.done("as expected" if not tried.wrong else f"{len(tried.wrong)} otherwise than expected")
            climb = Climb(
                traffic=traffic,
                watch=watch,
                shares=self.load.shares,
                effort=request.effort,
                errors_max=request.errors_max,
                rate_max=request.rate_max,
                told=self._tell,
                schedule=Schedule.of(request.effort, len(self.load.shares), len(CLIMB_FRACTIONS)),
                progress=self.stages.line if self.stages.shows_lines else None,
                steps=self.steps,
            )
            left = climb.schedule.left_seconds()
            self.stages.say(f"the measurement takes about {format.about(left or 0.0)}, longer if the target is slow")
            self.stages.begin("no load")
            idle = climb.idle()
            self.summary.tiers = [each.model_copy(update={"idle": idle.get(each.name)}) for each in self.summary.tiers]
            self.stages.done(idle_in_words(self.summary.tiers) or "not measured")
            self._climb(climb)
            self.is_measured = True
            self.summary.warnings += [f"No {name}: {why}" for name, why in watch.missing.items()]
        if self.planned:
            self._verify(climb)
        self.summary.complete = True

    def _tell(self, said: str, share: float | None, left_seconds: float | None) -> None:
        self.stages.update(share or 0.0, None if share is None else 1.0, said, left_seconds)

    def _leave_out(self, targets: Mapping[str, int]) -> None:
        """Says which of the log's requests are not made because their targets answered otherwise."""
        summary = self.summary
        for name, count in targets.items():
            fraction = count / summary.log_requests if summary.log_requests else 0.0
            why = f"{name}: tried once, its target answered otherwise than in the log"
            summary.left_out.append(LeftOutRequests(why=why, requests=count, fraction=fraction))
            summary.covered_fraction -= fraction

    def _climb(self, climb: Climb) -> None:
        self.stages.begin("rising load")
        explored, why = climb.explore()
        self.stages.done(f"about {explored:,.0f} requests/s: {why}")
        if self.request.required_users is not None:
            self.summary.required_requests_per_second = self.request.required_users / climb.users_at(1.0)
        self.stages.begin("around the knee")
        climb.climb(explored)
        self.summary.knee = locate(self.steps, explored, why)
        knee = self.summary.knee.requests_per_second.estimate
        ignored = [figures for _, figures in self.steps if figures.failed_by_generator]
        if ignored:
            self.summary.warnings.append(
                f"{len(ignored)} steps say nothing of the system, for the generator was their limit: "
                f"{ignored[-1].generator_limited}."
            )
        if self.load.thinks:
            users, ends = climb.users_at(1.0), self.summary.knee.requests_per_second.model_dump()
            self.summary.knee.users = Interval(**{name: rate * users for name, rate in ends.items()})
        self.top = climb.overload(knee)
        self.stages.done(f"knee at {knee:,.0f} requests/s")
        self.stages.begin("each endpoint alone")
        climb.mixes(knee)
        climb.complete(knee)
        self.stages.done(f"{sum(figures.kind == 'mix' for _, figures in self.steps)} steps")

    def _verify(self, climb: Climb) -> None:
        request, summary = self.request, self.summary
        starting = self._concluded()
        summary.verification = execution.predicted(starting, self.planned, request.prices)
        # Written before the changes are measured, with the answer so far in case the rest is interrupted.
        summary.incomplete_because = "it ended while changes were carried out"
        self.folder.write_json(SUMMARY, summary.model_dump(mode="json"))
        summary.incomplete_because = None
        self.folder.write_json(PREDICTIONS, [each.model_dump(mode="json") for each in summary.verification])
        carrying = Carrying(
            climb=climb,
            knee=summary.knee.requests_per_second.estimate if summary.knee is not None else 0.0,
            starting=starting,
            described=summary.tiers,
            tiers=request.tiers,
            sources=request.sources,
            target=request.target,
            restore=request.restore,
        )
        for planned, change in zip(self.planned, summary.verification, strict=True):
            self.stages.begin(change.what)
            execution.measure(carrying, planned, change)
            self.stages.done(in_words(change))
            if change.not_restored_because is not None:
                raise Stopped(f"after {change.what!r}, {not_restored(change.not_restored_because)}")

    def _concluded(self) -> Starting | None:
        """Draws the conclusions once."""
        summary = self.summary
        if not self.is_concluded and self.top is not None and summary.knee is not None:
            summary.steps = [figures for _, figures in self.steps]
            self.starting = conclude(summary, self.top, self._shares(), self.request.prices, self.request.seed)
            self.is_concluded = True
        return self.starting

    def finish(self) -> ApplicationSummary:
        """Draws the conclusions and writes the summary."""
        summary = self.summary
        summary.steps = [figures for _, figures in self.steps]
        # What the generator spoils says nothing of the application.
        tried = [
            Tried(step, figures)
            for step, figures in log_mix(self.steps)
            if not step.interrupted and not figures.failed_by_generator
        ]
        summary.objectives = [
            objectives.answer(
                each,
                tried,
                summary.required_requests_per_second or 0.0,
                is_complete=self.is_measured,
                knee=summary.knee,
            )
            for each in self.objectives
        ]
        self._concluded()
        if summary.covered_fraction < COVERED_MIN:
            summary.warnings.append(f"The load stands for {summary.covered_fraction:.0%} of the log's requests alone.")
        summary.abandoned_fraction = _abandoned_fraction(tried)
        if self.request.baseline is not None:
            earlier, name = self.request.baseline
            summary.comparison = baseline.compare(summary, earlier, name, self.request.fall_max)
        summary.verdicts = verdicts.of(summary, self.request.abandoned_max)
        summary.duration_seconds = time.monotonic() - self.started
        self.folder.write_json(SUMMARY, summary.model_dump(mode="json"))
        return summary

    def _shares(self) -> dict[str, float]:
        """How often each endpoint is asked for in a request of the load; what comes before a write is its work."""
        of_log = shares({each.name: each.count for each in self.covered.endpoints})
        return {name: share / self.load.requests_per_logged for name, share in of_log.items()}


def _abandoned_fraction(tried: Sequence[Tried]) -> float | None:
    below = [each.step for each in tried if each.figures.failed_because is None]
    due = sum(each.requests for step in below for each in step.endpoints)
    return sum(each.abandoned for step in below for each in step.endpoints) / due if due else None


def _begun(request: ApplicationRequest, load: load_definition.LoadDefinition) -> ApplicationSummary:
    covered, peak = load.covered, load.peak_requests_per_second
    return ApplicationSummary(
        sojourn_version=__version__,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        log_name=request.log or str(request.scenario),
        scenario_name=None if request.scenario is None else str(request.scenario),
        target=request.target,
        log_requests=load.log.requests if load.log is not None else 0,
        covered_fraction=covered.fraction,
        peak_requests_per_second=peak,
        required_requests_per_second=request.required_rate if request.required_rate is not None else peak,
        required_users=request.required_users,
        sessions=len(load.sessions) if load.sessions else None,
        endpoints=[
            EndpointDescription(
                name=each.name,
                requests=each.count,
                fraction=each.count / covered.requests,
                targets=each.targets,
                mean_bytes=each.mean_bytes,
            )
            for each in covered.endpoints
        ],
        left_out=[
            LeftOutRequests(why=each.why, requests=each.count, fraction=each.fraction) for each in covered.left_out
        ],
        tiers=[],
        warnings=list(load.warnings),
    )
