"""The stages of an assessment in order.

Each stage adds its part to the summary; if the pipeline ends early, the parts so far are written and marked.
"""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from sojourn import __version__, _native, interrupts
from sojourn.assessment import demand, plausibility, rising_load, steps
from sojourn.assessment.answer import Evidence, answer
from sojourn.assessment.climbs import Climbs
from sojourn.assessment.knee import locate
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped
from sojourn.assessment.model import Mix, Station, quota
from sojourn.assessment.prediction import at_measured_speeds, is_below, predict
from sojourn.assessment.request import Request, as_study, settings
from sojourn.assessment.resources import Helpers, Line, LogRates
from sojourn.assessment.rising_load import think_scale_within_limits
from sojourn.assessment.simulation import Sessions
from sojourn.assessment.summary import (
    Answer,
    DemandFit,
    DemandPoint,
    Summary,
    SystemUnderTest,
    Withheld,
    write_summary,
)
from sojourn.assessment.system_file import COMMENT, describe
from sojourn.assessment.verification import execution as verification
from sojourn.assessment.verification.assessed import Assessed, capacity, processor_fraction
from sojourn.cluster.target import LocalProcesses, Target
from sojourn.engine.progress import ProgressLine, RequestsAdvance
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import LOOPBACK, Fleet
from sojourn.loading.record import RequestsRecord, Saturation
from sojourn.machine import cores, disturbance, environment
from sojourn.machine.confinement import Confinement
from sojourn.queueing import system_file
from sojourn.results.run_folder import RunFolder
from sojourn.systems import Launch, Running
from sojourn.systems.server import EVERYWHERE
from sojourn.text import format
from sojourn.workload import site
from sojourn.workload.coverage import Coverage, coverage
from sojourn.workload.log import import_log
from sojourn.workload.log_pieces import OnWorkers, are_parsed_elsewhere
from sojourn.workload.site import work_folder

COVERAGE_MIN = 0.8
"""The least covered share of a log's requests; below it, the answer about a static copy says little about the site."""
OTHER_STAGES_SECONDS = 20.0
"""About how long preflight, import, the site and the model take together; only what is said before depends on it."""
NO_FITTED_STEP = "the server kept up at no load at which the generator was not the limit"
RESPONSE_HEAD_BYTES = 250
"""The approximate size of a response head on the network."""


def assess(request: Request, folder: RunFolder, stages: Stages, fleet: Fleet | None = None) -> Summary:
    """Runs all stages and returns the summary, complete or not, after writing it to the folder.

    Args:
        request: what is assessed.
        folder: where everything is written.
        stages: shows the progress.
        fleet: the machines that generate the rising load, with this one; this one alone if not given.

    Raises:
        CouldNotRun: before anything was measured; later failures come back in the summary.
        KeyboardInterrupt: before the log was imported.
    """
    assessment = _Assessment(request, folder, stages, fleet)
    try:
        assessment.run()
    except (Interrupted, KeyboardInterrupt):
        if assessment.trace is None:
            raise
        assessment.cut_short("interrupted")
    except ServerStopped as stop:
        assessment.cut_short(str(stop))
    except CouldNotRun as failure:
        if not assessment.demand_points:
            raise
        assessment.cut_short(failure.said)
    except OSError as error:
        # Usually a full disk.
        assessment.cut_short(str(error))
    with interrupts.held(to_the_end=True):
        return assessment.finish()


class _Assessment:
    """The state of an assessment, which grows from stage to stage."""

    def __init__(self, request: Request, folder: RunFolder, stages: Stages, fleet: Fleet | None) -> None:
        self.request = request
        self.fleet = fleet
        self.folder = folder
        self.stages = stages
        self.cores = cores.plan()
        self.started = time.monotonic()
        self.demand_points: list[DemandPoint] = []
        self.climbs = Climbs(folder, request.effort.rising_load, request.processors)
        self.trace: _native.Trace | None = None
        self.mix: Mix | None = None
        self.station: Station | None = None
        self.helpers: Helpers | None = None
        self.coverage: Coverage | None = None
        self.found = ""
        """What the rising load has found so far, in words."""
        self.no_model_because = NO_FITTED_STEP
        self.think_scale = 1.0 if request.think_scale is None else request.think_scale
        self.summary = Summary(
            sojourn_version=__version__,
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            duration_seconds=0.0,
            complete=False,
            incomplete_because=None,
            log_name=request.log,
            settings=settings(request, self.think_scale),
            log_import={},
            characteristics={},
            site_documents=None,
            site_bytes=None,
            system=None,
            demand_points=[],
            demand_fit=None,
            steps=[],
            knee=None,
            model=None,
            answer=None,
            warnings=[],
        )

    def run(self) -> None:
        self.summary.machine = environment.machine()
        self.folder.write_json("environment.json", environment.describe(self.summary.machine))
        self.folder.write_text("study.toml", as_study(self.request.log, self.summary.settings))
        with interrupts.preparing():
            self._check_machine()
            self._check_workers()
            self._say_how_long()
            trace = self._import()
        with ExitStack() as cleanup:
            trace_file = self._write_trace(trace, cleanup)
            work = cleanup.enter_context(work_folder(self.request.work_dir, self.folder.path, self._documents(trace)))
            root = self._build_site(trace, work)
            server = cleanup.enter_context(self._start_server(root, work))
            cleanup.enter_context(cores.keep_off_server_core(self.cores))
            recorded = self.climbs.recorded if self.request.probe else None
            bench = Bench(server, self.cores, self.request.seed, recorded, fleet=self.fleet)
            self._measure_demand(bench)
            self._climb(bench, trace, trace_file)
            server.stop()
            self._predict(trace)
            self._verify(trace, trace_file, self._launch(root, work))
        self.summary.complete = self.summary.incomplete_because is None

    def _say_how_long(self) -> None:
        found = self.summary.disturbance
        least, most = rising_load.expected_seconds(
            self.request.effort.rising_load, is_quiet=found is None or found.is_quiet
        )
        rest = demand.expected_seconds(self.request.effort.demand) + OTHER_STAGES_SECONDS
        change = verification.expected_seconds(self.request.effort.rising_load)
        verified = f"; each change that is verified takes {format.about(change)} or more" if self.request.verify else ""
        self.stages.say(
            f"this takes about {format.about(least + rest)}, up to {format.about(most + rest)} if loads have to be "
            f"measured again, and longer for a slow server{verified}"
        )

    def _check_machine(self) -> None:
        """Measures disturbances of the cores before any of our programs run."""
        self.stages.begin("preflight")
        found = disturbance.measure(self.cores, starts_server=self.request.server.builds_site)
        self.summary.disturbance = found
        self.summary.warnings += found.sentences
        self.stages.done("quiet" if found.is_quiet else " ".join(found.sentences))
        if self.request.require_quiet and not found.is_quiet:
            raise CouldNotRun(
                f"the machine is not quiet: {' '.join(found.sentences)}",
                "end the other work, or leave --require-quiet out",
            )

    def _check_workers(self) -> None:
        said = None if self.fleet is None else crowded(self.fleet.cluster.target, len(os.sched_getaffinity(0)))
        if said is not None:
            self.summary.warnings.append(said)
            self.stages.say(said)

    def _import(self) -> _native.Trace:
        self.stages.begin("import")
        trace, self.summary.log_import = import_log(
            self.request.log,
            self.request.log_options,
            self.request.seed,
            self.stages.update,
            OnWorkers(self.fleet.cluster)
            if self.fleet is not None and are_parsed_elsewhere(self.fleet.cluster.target)
            else None,
        )
        self._check_coverage()
        self.summary.characteristics = trace.characterise()
        self.trace = trace
        sizes = trace.transfer_sizes().astype(float)
        self.mix = Mix(sizes, trace.first_in_session())
        self.stages.done(f"{len(sizes):,} requests for {len(trace.documents()):,} documents")
        return trace

    def _write_trace(self, trace: _native.Trace, cleanup: ExitStack) -> Path:
        """Writes the trace to a file for the generator, a temporary one if the run's folder lacks room."""
        name = "trace.sojourn"
        if self.folder.write(name, lambda partial: trace.save(str(partial))):
            return self.folder.path / name
        aside = Path(cleanup.enter_context(tempfile.TemporaryDirectory())) / name
        trace.save(str(aside))
        return aside

    def _check_coverage(self) -> None:
        """Refuses an assessment whose static copy represents little of the site."""
        self.coverage = coverage(self.summary.log_import)
        if self.coverage is None or self.coverage.requests_fraction >= COVERAGE_MIN:
            return
        said = static_share(self.coverage)
        if not self.request.static_only:
            raise CouldNotRun(
                f"{said}: an answer about that copy would not be about the site",
                "assess the application where it runs (sojourn assess LOG --target URL), or give --static-only",
            )
        self.summary.warnings.append(f"{said}: this answer is about that part of the site alone.")

    def _documents(self, trace: _native.Trace) -> list[site.Document]:
        return site.documents_of(trace) if self.request.server.builds_site else []

    def _build_site(self, trace: _native.Trace, work: Path) -> Path:
        self.stages.begin("site")
        root = work / "site"
        documents = trace.documents()
        self.summary.site_documents = len(documents)
        self.summary.site_bytes = sum(size for _, size, _, _ in documents)
        if self.request.server.builds_site:
            site.build(
                root,
                self._documents(trace),
                self.request.content_limit_bytes,
                self.stages.update,
            )
        self.stages.done(f"{self.summary.site_bytes / 1e6:,.1f} MB in {len(documents):,} files")
        return root

    def _start_server(self, root: Path, work: Path) -> Running:
        running = self.request.server.start(self._launch(root, work))
        self.summary.system = SystemUnderTest(
            name=self.request.server.name,
            version=running.version,
            command=running.command,
            server_core=self.cores.server,
            generator_core=self.cores.generator,
            pinned=self.cores.pinned and running.process is not None,
            helpers=running.helpers,
        )
        if not self.summary.system.pinned:
            self.summary.warnings.append(
                "Server and generator were not kept on cores of their own: their work disturbs each other."
            )
        return running

    def _launch(self, root: Path, work: Path) -> Launch:
        processors = self.request.processors
        confinement = None if processors is None else Confinement(root, processors=processors, drop_pages="none")
        is_near = self.fleet is None or self.fleet.address == LOOPBACK
        return Launch(
            root,
            work,
            self.cores.server,
            self.request.architecture,
            confinement=confinement,
            address=LOOPBACK if is_near else EVERYWHERE,
            upstream_core=self.cores.generator,
        )

    def _measure_demand(self, bench: Bench) -> None:
        self.stages.begin("service demand")
        demand.measure(
            bench,
            self.request.effort.demand,
            self.demand_points.append,
            self.stages.update,
        )
        fitted = demand.fit(self.demand_points, self.request.seed)
        self.summary.demand_fit = fitted
        self.stages.done(
            f"g(x) = {fitted.fixed_seconds.estimate * 1e6:.2f} us + {fitted.seconds_per_byte.estimate * 1e9:.3f} ns/B x"
        )

    def _climb(self, bench: Bench, trace: _native.Trace, trace_file: Path) -> None:
        assert self.summary.demand_fit is not None
        assert self.mix is not None
        estimate = (self.request.processors or 1.0) / float(self.mix.demands(self.summary.demand_fit).mean())
        self._choose_think_scale(trace, estimate)
        before = bench.server.metrics()
        self.stages.begin("rising load")
        self.climbs.effort = self.request.effort.rising_load.for_capacity(estimate)
        climb = rising_load.Climb(
            bench=bench,
            trace=trace_file,
            effort=self.climbs.effort,
            think_scale=self.think_scale,
            target_p95_seconds=self.request.target_p95_seconds,
            keep=self._keep,
            progress=self._show,
        )
        explored = climb.explore(estimate)
        if explored <= 0:
            raise CouldNotRun(
                "not even the lowest step stayed within the target",
                "give a larger --target-p95, or look at the run's points.parquet for errors",
            )
        climb.repeat(explored)
        self.helpers = _helpers(bench.server, before)
        knee = locate(self.climbs.repetitions(), self.request.target_p95_seconds)
        if knee is None:
            raise CouldNotRun(
                "the load generator was the limit at every load, which says nothing of the server",
                "assess on a machine with less other work",
            )
        self.stages.done(f"knee at {knee.requests_per_second:,.0f} requests/s")

    def _choose_think_scale(self, trace: _native.Trace, estimate: float) -> None:
        if self.request.think_scale is None:
            highest = estimate * rising_load.REPEATED_FRACTIONS[-1]
            self.think_scale, because = think_scale_within_limits(trace, highest)
            self.summary.settings.think_scale = self.think_scale
            self.summary.settings.think_scale_because = because
            if because is not None:
                self.summary.warnings.append(because)

    def _keep(self, result: RequestsRecord, climb: str) -> None:
        """Keeps a climb, and what it says of the knee so far."""
        self.climbs.keep(result, climb)
        knee = locate(self.climbs.repetitions(), self.request.target_p95_seconds)
        if knee is not None:
            self.found = f"; knee so far {'at least ' * knee.is_lower_bound}{knee.requests_per_second:,.0f}"

    def _show(self, progress: ProgressLine) -> None:
        self.stages.line(progress)
        if not isinstance(progress, RequestsAdvance):
            return
        climbs = 1 + max(self.request.effort.rising_load.repetitions, len(self.climbs))
        rate, p95 = progress.requests_per_second, progress.time_to_first_byte_p95_seconds
        p95_text = "" if p95 is None else f", p95 {p95 * 1e3:.2f} ms"
        done = min(climbs, len(self.climbs) + progress.progress)
        self.stages.update(done, climbs, f"{rate:,.0f} requests/s{p95_text}{self.found}")

    def _predict(self, trace: _native.Trace) -> None:
        assert self.mix is not None
        self.summary.steps = steps.over_levels(self.climbs.levels())
        self.summary.knee = locate(self.climbs.repetitions(), self.request.target_p95_seconds)
        saturation = self.climbs.saturation(self.helpers)
        self.summary.saturation = saturation
        withheld: list[Withheld] = []
        if self.summary.demand_fit is not None and self.summary.steps and self.summary.knee is not None:
            self.stages.begin("model")
            self.summary.model, self.summary.steps, self.station = predict(
                self.mix,
                Sessions(trace, self.think_scale, self.climbs.measured()),
                self.summary.demand_fit,
                self.summary.steps,
                self.summary.knee,
                self.request.seed,
                self.stages.update,
                quota(self.request.processors) if self.request.processors else None,
            )
            withheld = self._judge_model()
            self.stages.done(
                "predicted beside measured" if self.station else f"no credible model: {self.no_model_because}"
            )
        self._answer(saturation, withheld)

    def _judge_model(self) -> list[Withheld]:
        """Withdraws a model that the measurements contradict, with all its predictions."""
        if self.summary.model is None:
            return []
        refused = plausibility.model(self.summary.model, self.summary.steps)
        if refused is None:
            return []
        self.no_model_because = refused.reason
        self.summary.model = self.station = None
        self.summary.steps = [steps.without_predictions(step) for step in self.summary.steps]
        return [refused]

    def _answer(self, saturation: Saturation | None, withheld: list[Withheld]) -> None:
        if self.summary.knee is None or self.mix is None:
            return
        line_rate = self.request.access_line_bits_per_second
        self.summary.answer = answer(
            Evidence(
                knee=self.summary.knee,
                steps=self.summary.steps,
                model=self.summary.model,
                saturation=saturation,
                line=None if line_rate is None else Line(line_rate, self.mix.sizes_bytes + RESPONSE_HEAD_BYTES),
                helpers=self.helpers,
                rates=self._log_rates(),
                target_p95_seconds=self.request.target_p95_seconds,
                seed=self.request.seed,
                withheld=withheld,
                other_work_before=self._other_work_before(),
                requests_fraction=self.coverage.requests_fraction if self.coverage else None,
                bytes_fraction=self.coverage.bytes_fraction if self.coverage else None,
                processors=self.request.processors,
            )
        )

    def _other_work_before(self) -> float | None:
        found = self.summary.disturbance.cores if self.summary.disturbance else []
        return next((each.other_work_fraction for each in found if "server" in each.role), None)

    def _log_rates(self) -> LogRates:
        """Rates over all requests of the log, as far as the import counted them."""
        table = self.summary.characteristics["table1"]
        average, peak = table["average_requests_per_second"], table["peak_requests_per_second"]
        if self.coverage is not None and self.coverage.peak_requests_per_second_all is not None:
            kept = self.summary.log_import["requests"]
            return LogRates(
                average * self.coverage.requests_all / max(1, kept), self.coverage.peak_requests_per_second_all
            )
        return LogRates(average, peak)

    def _verify(self, trace: _native.Trace, trace_file: Path, launch: Launch) -> None:
        if not self.request.verify:
            return
        if self.station is None or self.mix is None:
            self.summary.verification = verification.unpredicted(self.request.verify)
            self.summary.warnings.append(f"Nothing was verified: {verification.NO_MODEL} ({self.no_model_because}).")
            return
        assert self.summary.demand_fit is not None
        assert self.summary.knee is not None
        system = self.summary.system
        assessed = Assessed(
            folder=self.folder,
            trace=trace_file,
            server=self.request.server,
            launch=launch,
            cores=self.cores,
            sessions=at_measured_speeds(
                Sessions(trace, self.think_scale, self.climbs.measured()),
                self.summary.steps,
                self.mix.demands(self.summary.demand_fit),
                has_quota=self.request.processors is not None,
            ),
            mix=self.mix,
            demand_fit=self.summary.demand_fit,
            station=self.station,
            knee=self.summary.knee,
            light=[step for step in self.summary.steps if is_below(step, self.summary.knee)],
            processor_fraction=processor_fraction(self.summary.steps, capacity(self.summary.knee, self.station)),
            helpers=system.helpers if system else None,
            helper_limit=_limit_of_helpers(self.summary.answer),
            target_p95_seconds=self.request.target_p95_seconds,
            effort=self.request.effort,
            seed=self.request.seed,
            disturbances=steps.warnings(self.climbs.rows),
            fleet=self.fleet,
        )
        self.summary.verification = []
        try:
            verification.verify(assessed, self.request.verify, self.stages, self.summary.verification.append)
        except (Interrupted, KeyboardInterrupt):
            self.summary.incomplete_because = "interrupted while its predictions were verified"

    def cut_short(self, because: str) -> None:
        """Computes the answer from the steps that finished before the interruption."""
        self.summary.incomplete_because = because
        if self.trace is not None and self.climbs:
            # A second Ctrl-C skips the answer, but the measurements are still written.
            with suppress(KeyboardInterrupt):
                self._predict(self.trace)

    def finish(self) -> Summary:
        """Writes the summary and the fitted system."""
        self.summary.demand_points = self.demand_points
        self.summary.duration_seconds = time.monotonic() - self.started
        self._add_warnings()
        fit, answer = self.summary.demand_fit, self.summary.answer
        self._write(fit, answer)
        return self.summary

    def _write(self, fit: DemandFit | None, answer: Answer | None) -> None:
        if self.station is not None and self.mix is not None and fit is not None and answer is not None:
            assert self.summary.knee is not None, "the answer is made of it"
            # An access line that alone takes longer than the target leaves a rate of 0, which no system file may have.
            largest = answer.largest_rate_requests_per_second or self.summary.knee.low
            rate = min(largest, 0.9 * self.station.capacity) or 0.5 * self.station.capacity
            line = self.request.access_line_bits_per_second
            system = describe(self.summary.settings.server, self.mix, self.station, fit, rate, line)
            offered = [step.offered_requests_per_second for step in self.summary.steps]
            system["description"] = system_file.measured(min(offered), max(offered))
            self.folder.write_text("system.toml", system_file.write(system, COMMENT))
        write_summary(self.folder, self.summary)

    def _add_warnings(self) -> None:
        self.summary.warnings += steps.warnings(self.climbs.rows)
        unsteady = [step for step in self.summary.steps if step.within_target and not step.steady]
        if unsteady:
            rates = ", ".join(f"{step.offered_requests_per_second:,.0f}" for step in unsteady)
            self.summary.warnings.append(f"Not steady within the step: {rates} requests/s.")
        if self.summary.knee is not None and self.summary.knee.reason == "generator":
            self.summary.warnings.append("The load generator was the limit: the server's knee lies higher.")


def crowded(target: Target, own: int) -> str | None:
    """Warns of workers on this machine of `own` cores that have to share those beside the server's."""
    if not isinstance(target, LocalProcesses) or own == 1 or target.processes < own:
        return None
    return (
        f"{target.processes} workers generate load on this machine of {own} cores, one of which is the server's: they "
        "wait for each other, which is part of the response times, and generate no more than this machine without "
        "--cluster. A model may then not fit, without which nothing can be verified. Leave --cluster out, or name "
        "workers on other machines."
    )


def static_share(found: Coverage) -> str:
    """Describes the share of the static copy, and the largest class of the rest."""
    said = f"a static copy of this site stands for {format.percent(found.requests_fraction)} of the log's requests"
    if found.bytes_fraction is not None:
        said += f" and {format.percent(found.bytes_fraction)} of their bytes"
    rest = [*found.dynamic, *found.left_out]
    if not rest:
        return said
    classes = ", ".join(f"{each.name.replace('_', ' ')} {each.count:,}" for each in rest)
    return f"{said} (not in it: {classes})"


def _helpers(server: Running, before: dict[str, float]) -> Helpers | None:
    now = server.metrics()
    names = ("sojourn_helper_busy_seconds_total", "sojourn_requests_total")
    if server.helpers is None or any(name not in now for name in names):
        return None
    busy, requests = (now[name] - before.get(name, 0.0) for name in names)
    return Helpers(server.helpers, busy / max(1.0, requests))


def _limit_of_helpers(answer: Answer | None) -> float | None:
    resources = answer.resources if answer is not None else []
    return next((each.limit_requests_per_second for each in resources if each.name == "helpers"), None)


class Stages(Protocol):
    """Shows the stages of a long run."""

    def begin(self, name: str, total: float | None = None) -> None:
        """Ends the current stage and starts the next one."""

    def update(
        self, done: float, total: float | None = None, detail: str = "", left_seconds: float | None = None
    ) -> None:
        """Says how far the current stage is; without `left_seconds`, the time left follows from that."""

    def say(self, text: str) -> None:
        """Prints a sentence."""

    @property
    def shows_lines(self) -> bool:
        """Whether anybody sees the lines of loads."""

    def line(self, line: ProgressLine) -> None:
        """Passes on a line of the load that the stage makes."""

    def done(self, detail: str | None = None) -> None:
        """Ends the current stage; `detail` is its result in a few words."""
