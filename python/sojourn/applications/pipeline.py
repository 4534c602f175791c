"""The stages of an assessment of an application, from the log to the answer; what ends it early, it says."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence

from sojourn import __version__, interrupts
from sojourn.applications import demands, diagnosis, network, objectives, requests
from sojourn.applications.changes import changes
from sojourn.applications.climb import Climb, Stopped, log_mix, shares
from sojourn.applications.coverage import Coverage, coverage
from sojourn.applications.diagnosis import core_groups
from sojourn.applications.endpoints import OTHER, Endpoint, endpoints
from sojourn.applications.knee import locate
from sojourn.applications.objectives import Objective, Tried
from sojourn.applications.request import ApplicationRequest
from sojourn.applications.summary import (
    SUMMARY,
    ApplicationSummary,
    Cause,
    EndpointDescription,
    HeldOutStep,
    Knee,
    LeftOutRequests,
    Model,
    StepFigures,
    TierDescription,
)
from sojourn.applications.traffic import Step, Traffic
from sojourn.assessment.pipeline import Stages
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.results.run_folder import RunFolder
from sojourn.tiers.watch import Watch

ENDPOINTS_MAX = 9
"""That are loaded apart: more could not be told apart within the time."""
COVERED_MIN = 0.5
BELIEVED_ERROR_MAX = 0.25
"""Of the mean response time on steps that the model did not see."""
FITTED_LOAD_MAX = 0.6
"""Of the knee: steps of the log's mix below it show what a request takes with nothing in its way."""


def assess(request: ApplicationRequest, folder: RunFolder, stages: Stages) -> ApplicationSummary:
    """Runs all stages and returns the summary, complete or not; it is in the folder by then.

    Raises:
        CouldNotRun: before anything was measured.
    """
    assessment = _Assessment(request, folder, stages)
    try:
        assessment.run()
    except (Stopped, CouldNotRun) as ending:
        if not assessment.steps:
            raise ending if isinstance(ending, CouldNotRun) else CouldNotRun(str(ending)) from ending
        assessment.summary.incomplete_because = ending.said if isinstance(ending, CouldNotRun) else str(ending)
    except KeyboardInterrupt:
        if not assessment.steps:
            raise
        assessment.summary.incomplete_because = "interrupted"
    with interrupts.held(to_the_end=True):
        return assessment.finish()


class _Assessment:
    """The state that grows from stage to stage."""

    def __init__(self, request: ApplicationRequest, folder: RunFolder, stages: Stages) -> None:
        self.request = request
        self.folder = folder
        self.stages = stages
        self.started = time.monotonic()
        self.steps: list[tuple[Step, StepFigures]] = []
        self.low: StepFigures | None = None
        self.top: StepFigures | None = None
        stages.begin("log")
        log = requests.read(request.log, request.log_options)
        known = _few(endpoints(log.rows, request.endpoints), request.methods)
        self.covered = coverage(log, known, request.methods)
        if not self.covered.endpoints:
            raise CouldNotRun("the log has no request that may be made", "see sojourn endpoints LOG, --allow-methods")
        self.objectives = [Objective.parse(text, self.covered.endpoints) for text in request.objectives]
        peak = log.peak_requests_per_second * self.covered.fraction
        self.summary = _begun(request, self.covered, log, peak)
        stages.done(f"{log.requests:,} requests, {len(self.covered.endpoints)} endpoints")

    def run(self) -> None:
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
            climb = Climb(
                traffic=Traffic(
                    request.target,
                    self.covered.endpoints,
                    self.folder.path / "targets",
                    request.headers,
                    plan.generator,
                    request.seed,
                ),
                watch=watch,
                shares=shares({each.name: each.count for each in self.covered.endpoints}),
                effort=request.effort,
                errors_max=request.errors_max,
                rate_max=request.rate_max,
                told=lambda said: self.stages.update(0, None, said),
                seed=request.seed,
                steps=self.steps,
            )
            self._climb(climb)
            self.summary.warnings += [f"No {name}: {why}" for name, why in watch.missing.items()]
        self.summary.complete = True

    def _climb(self, climb: Climb) -> None:
        self.stages.begin("rising load")
        explored, why = climb.explore()
        self.stages.done(f"about {explored:,.0f} requests/s: {why}")
        self.stages.begin("around the knee")
        climb.climb(explored)
        self.summary.knee = locate(self.steps, explored, why)
        knee = self.summary.knee.requests_per_second.estimate
        self.top = climb.overload(knee)
        self.stages.done(f"knee at {knee:,.0f} requests/s")
        self.stages.begin("other mixes")
        climb.mixes(knee)
        self.stages.done(f"{sum(figures.kind == 'mix' for _, figures in self.steps)} steps")

    def finish(self) -> ApplicationSummary:
        """Draws the conclusions from what was measured, and writes them."""
        summary = self.summary
        summary.steps = [figures for _, figures in self.steps]
        tried = [Tried(step, figures) for step, figures in log_mix(self.steps) if not step.interrupted]
        summary.objectives = [
            objectives.answer(each, tried, summary.required_requests_per_second) for each in self.objectives
        ]
        if self.top is not None and summary.knee is not None:
            self._conclude(summary.knee, self.top)
        if summary.covered_fraction < COVERED_MIN:
            summary.warnings.append(f"The load stands for {summary.covered_fraction:.0%} of the log's requests alone.")
        summary.duration_seconds = time.monotonic() - self.started
        self.folder.write_json(SUMMARY, summary.model_dump(mode="json"))
        return summary

    def _conclude(self, knee: Knee, top: StepFigures) -> None:
        summary = self.summary
        names = [each.name for each in self.covered.endpoints]
        below = [figures for figures in summary.steps if figures.failed_because is None]
        summary.demands, summary.demand_errors, warnings = demands.measure(
            below, names, [each.name for each in summary.tiers], self.request.seed
        )
        summary.warnings += warnings
        low = min(below, key=lambda figures: figures.offered_requests_per_second)
        fitted = [
            figures
            for figures in below
            if figures.kind == "mix"
            or figures.offered_requests_per_second <= FITTED_LOAD_MAX * knee.requests_per_second.estimate
        ]
        unhindered = diagnosis.unhindered_seconds(fitted)
        causes = diagnosis.find(low, top, unhindered, summary.tiers)
        limited_workers = any(each.cause in ("workers", "outside") for each in causes)
        held = diagnosis.held_workers(unhindered, top)
        workers = max(1, round(held)) if limited_workers and held is not None else None
        found = network.fit(unhindered, names, summary.demands, core_groups(summary.tiers), workers)
        if found is not None:
            self._try(found, [each for each in below if each.kind == "climb" and each not in fitted], causes)
        summary.bottleneck, summary.next_bottleneck = _first_two(causes, found, names, self.covered, knee)
        believed = found if summary.model is not None and summary.model.believed else None
        summary.changes = changes(believed, summary.bottleneck, self._shares(), knee)

    def _try(self, found: network.Network, unseen: Sequence[StepFigures], causes: Sequence[Cause]) -> None:
        tried = []
        for figures in unseen:
            predicted = found.mean_seconds(network.rates_of(figures), self.request.seed)
            measured = figures.response_time_mean_seconds
            figures.predicted_response_time_mean_seconds = predicted
            if predicted is not None and measured is not None:
                tried.append(
                    HeldOutStep(
                        offered_requests_per_second=figures.offered_requests_per_second,
                        measured_seconds=measured,
                        predicted_seconds=predicted,
                    )
                )
        errors = sorted(abs(each.predicted_seconds / each.measured_seconds - 1) for each in tried)
        error = errors[len(errors) // 2] if errors else None
        modelled = {"cpu", "workers", "outside"}
        limits = found.limits(self._shares())
        believed = error is not None and error <= BELIEVED_ERROR_MAX
        if causes and causes[0].cause not in modelled:
            believed = False
            self.summary.warnings.append(f"The model has no {causes[0].cause}: what it says of changes is left out.")
        elif not believed:
            said = (
                "it could not be tried" if error is None else f"it is off by {error:.0%} on steps that it did not see"
            )
            self.summary.warnings.append(f"The model is not believed ({said}): what it says of changes is left out.")
        self.summary.model = Model(
            workers=found.workers,
            system_file=found.system_file({name: share for name, share in self._shares().items()}),
            capacity_requests_per_second=min(limits.values(), default=None),
            held_out=tried,
            held_out_error_median=error,
            believed=believed,
        )

    def _shares(self) -> dict[str, float]:
        return shares({each.name: each.count for each in self.covered.endpoints})


def _few(known: Sequence[Endpoint], methods: Sequence[str]) -> list[Endpoint]:
    """Endpoints few enough to be told apart: of each method the rarest are one."""
    loaded = [each for each in known if each.method in methods]
    kept = loaded[: ENDPOINTS_MAX - 1] if len(loaded) > ENDPOINTS_MAX else loaded
    result = [each for each in known if each.method not in methods or each in kept]
    for method in dict.fromkeys(each.method for each in loaded):
        rest = [each for each in loaded if each not in kept and each.method == method]
        if rest:
            rows = sorted((row for each in rest for row in each.requests), key=lambda row: (-row.count, row.target))
            result.append(Endpoint(f"{method} {OTHER}" if len(rest) > 1 else rest[0].name, method, tuple(rows)))
    return result


def _begun(
    request: ApplicationRequest, covered: Coverage, log: requests.LogRequests, peak: float
) -> ApplicationSummary:
    return ApplicationSummary(
        sojourn_version=__version__,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        log_name=request.log,
        target=request.target,
        log_requests=log.requests,
        covered_fraction=covered.fraction,
        peak_requests_per_second=peak,
        required_requests_per_second=request.required_rate if request.required_rate is not None else peak,
        endpoints=[
            EndpointDescription(
                name=each.name,
                requests=each.count,
                fraction=each.count / log.requests,
                targets=each.targets,
                mean_bytes=each.mean_bytes,
            )
            for each in covered.endpoints
        ],
        left_out=[
            LeftOutRequests(why=each.why, requests=each.count, fraction=each.fraction) for each in covered.left_out
        ],
        tiers=[],
    )


def _first_two(
    causes: Sequence[Cause], found: network.Network | None, names: Sequence[str], covered: Coverage, knee: Knee
) -> tuple[Cause, Cause | None]:
    if knee.is_lower_bound:
        unknown = Cause(tier=None, cause="unknown", because=f"the load did not reach the knee: {knee.stopped_because}")
        return unknown, causes[0] if causes else None
    if not causes:
        because = (
            "no tier's processor, workers, connections, locks or disk were shown to be at their end in the step beyond "
            "the knee; a machine without other work, or the tiers on cores of their own, would show more"
        )
        return Cause(tier=None, cause="unknown", because=because), None
    first = causes[0].model_copy(update={"limit_requests_per_second": knee.requests_per_second.estimate})
    if len(causes) > 1:
        return first, causes[1]
    if found is None:
        return first, None
    counts = {each.name: each.count for each in covered.endpoints}
    others = {
        name: limit
        for name, limit in found.limits(shares(counts)).items()
        if limit > knee.requests_per_second.high
        and not (first.cause == "cpu" and str(first.tier) in name.removeprefix("cores of ").split(", "))
        and not (name == "workers" and first.cause != "cpu")
    }
    if not others:
        return first, None
    name = min(others, key=lambda each: others[each])
    tiers = name.removeprefix("cores of ")
    next_one = Cause(
        tier=tiers,
        cause="workers" if name == "workers" else "cpu",
        because="by its service demands",
        limit_requests_per_second=others[name],
    )
    return first, next_one
