"""`sojourn study`: reproduces tables and figures of the literature, with verdicts."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn import interrupts
from sojourn.commands.cluster_option import PANEL as CLUSTER
from sojourn.commands.cluster_option import ClusterOption, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where, talk
from sojourn.commands.help import FurtherOption
from sojourn.commands.web_option import WebFlag, WebPort, live_page
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.text import quantity

if TYPE_CHECKING:
    from sojourn.cluster.tasks import Tasks
    from sojourn.loading.fleet import Fleet
    from sojourn.report.live.server import LivePage
    from sojourn.study.document import Study
    from sojourn.study.findings import Findings

LIST = "list"
RUNS = Path("runs/study")
PLANNED = 0.6
"""The share of a budget that planned points may use; the rest settles what they leave open."""


def register(app: typer.Typer) -> None:
    app.command("study")(with_cluster_option(_study))


def _study(
    target: Annotated[str | None, typer.Argument(help="A study's file or name; list shows all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all studies, one after the other.")] = False,
    quick: Annotated[
        bool, typer.Option(help="A trial of seconds per study, with fewer and shorter points and no verdicts.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Repeat open findings until they are decided, for at most this long, such as 30m; with --all, shared "
            "among the studies."
        ),
    ] = None,
    repetitions: Annotated[
        int | None,
        FurtherOption(min=1, max=1000, help="How often each point is measured [default: the study's number]."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The run folder [default: runs/study/NAME, NAME-quick with --quick].")
    ] = None,
    work_dir: Annotated[
        Path | None, typer.Option(help="Keep sites here for reuse; Apache httpd's user needs access.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The access log of studies that replay one, or a part of a log with published figures, such as"
            " 'nyse at 2%' (also olympics98, ircache) [default: the example log].",
        ),
    ] = None,
    load_on_cluster: Annotated[
        bool,
        FurtherOption(
            "--load-on-cluster", help="Let the cluster's workers generate the loads.", rich_help_panel=CLUSTER
        ),
    ] = False,
    web: WebFlag = False,
    web_port: WebPort = 0,
    output_format: FormatOption = Format.text,
    *,
    cluster: ClusterOption,
) -> None:
    """Reproduce a table or figure of the literature, and report which of its findings hold on this machine.

    A study is a TOML file: systems, a workload, factors, repetitions, and the shape that its source reports. Points
    are measured in random order, all once per repetition; each is written when it is done. After Ctrl-C, a kill or the
    end of --budget, run the same command to resume. With a budget, findings that the planned repetitions leave open
    are repeated until they are decided. The files in `studies/` are examples.

    With --cluster, points that a model solves are solved on a cluster. Servers run here, one at a time; with
    --load-on-cluster, workers with the resource load=1 generate their loads.

    Examples: sojourn study flash/single-file --quick

    sojourn study --all --budget 25m
    """
    from sojourn.report.study.terminal import print_list
    from sojourn.study import catalogue

    if target == LIST:
        listed = [study for _, study in catalogue.studies()]
        if output_format is Format.json:
            print_json([_listed(each) for each in listed])
        else:
            print_list(listed, data)
        return
    if every == (target is not None):
        raise CouldNotRun("give one study, or --all", "sojourn study list shows what there is")
    if every and quick and budget is not None:
        raise CouldNotRun("--quick and --budget exclude each other with --all", "give one of them")
    if every and output is not None:
        raise CouldNotRun("--output is the folder of one study", "without it they go below runs/study")
    files = [path for path, _ in catalogue.studies()] if every else [catalogue.find(str(target))]
    quiet = output_format is Format.json
    if load_on_cluster and cluster.target is None:
        raise CouldNotRun("--load-on-cluster needs a cluster", "add --cluster")
    title = f"sojourn study {target or '--all'}"
    with cluster.tasks(quiet=quiet) as tasks, live_page(web, web_port, title) as page:
        fleet = _fleet(tasks) if load_on_cluster else None
        asked = _Asked(quick, budget, repetitions, output, work_dir, log, quiet, tasks, fleet, page)
        parts = [asked.part_of(file) for file in files]
        if every and budget is not None:
            began = time.monotonic()
            _run_all(_shared_out(parts, asked, budget), asked, began + quantity.seconds(budget))
        else:
            _run_all(parts, asked)


def _fleet(tasks: Tasks) -> Fleet:
    from sojourn.cluster.dask_cluster import DaskCluster
    from sojourn.loading.fleet import Fleet

    assert isinstance(tasks, DaskCluster)
    return Fleet(tasks)


def _listed(study: Study) -> dict[str, object]:
    from sojourn.study.scale import whole_seconds

    takes = {"takes_about_seconds": whole_seconds(study), "quick_about_seconds": whole_seconds(study.shortened())}
    return {"name": study.name, "title": study.title, "source": study.source, **takes}


@dataclass(frozen=True)
class _Asked:
    """The options that apply to all studies."""

    quick: bool
    budget: str | None
    repetitions: int | None
    output: Path | None
    work_dir: Path | None
    log: str | None
    quiet: bool
    tasks: Tasks
    fleet: Fleet | None
    """The machines that generate loads; this one if there are none."""
    page: LivePage | None

    def part_of(self, file: Path) -> _Part:
        """The part of the study in a file that is to be measured."""
        from sojourn.study import document
        from sojourn.study.logs import is_made

        whole, text = document.read(file)
        study = whole.shortened() if self.quick else whole
        if self.repetitions is not None:
            study = study.model_copy(update={"repetitions": self.repetitions})
        if self.budget is not None and not self.quick:
            study = study.model_copy(update={"until_decided": True})
        if self.log is not None and study.takes_log:
            study = study.model_copy(update={"log": self.log if is_made(self.log) else str(Path(self.log).resolve())})
        folder = self.output or RUNS / (study.name + ("-quick" if self.quick else ""))
        return _Part(file, text, study, folder, None if self.budget is None else quantity.seconds(self.budget))


@dataclass(frozen=True)
class _Part:
    """A study, or the part of it that is to be measured."""

    file: Path
    text: str
    study: Study
    folder: Path
    seconds: float | None
    """The time to measure; a later run resumes where this one ends."""


def _shared_out(parts: list[_Part], asked: _Asked, budget: str) -> list[_Part]:
    """Shortens each study to its share of the budget, in a folder of its own."""
    from sojourn.report.study.terminal import print_shares
    from sojourn.study import shares

    shared = shares.shared_out([part.study for part in parts], PLANNED * quantity.seconds(budget))
    if not asked.quiet:
        print_shares(shared, talk)
    suffix = budget.replace(" ", "")
    return [
        replace(part, study=share.study, folder=RUNS / f"{part.study.name}-{suffix}", seconds=share.seconds)
        for part, share in zip(parts, shared, strict=True)
    ]


def _run_all(parts: list[_Part], asked: _Asked, deadline: float | None = None) -> None:
    """Runs all studies in order, then until the deadline those with open findings, shortest decision first."""
    from sojourn.report.study.index import write_index

    done: dict[Path, _Done] = {}
    began = time.monotonic()
    planned = sum(each.seconds or 0.0 for each in parts)
    if deadline is not None:
        # Estimates may be too short; unused time goes to studies that overrun theirs.
        planned = max(planned, PLANNED * (deadline - began))
    for place, part in enumerate(parts):
        if len(parts) > 1 and part.seconds:
            # Time that earlier studies saved or overdrew is shared among later ones in proportion; small studies may
            # use the whole budget.
            shares = [each.seconds or 0.0 for each in parts]
            left = max(0.0, planned - (time.monotonic() - began))
            mean = left / sum(each > 0 for each in shares[place:])
            part = replace(part, seconds=max(mean, left * shares[place] / sum(shares[place:])))
        try:
            done[part.folder] = _run(part, asked, may_repeat=deadline is None)
            done[part.folder].print(asked)
        except CouldNotRun as error:
            if len(parts) == 1:
                raise
            # A failure of one study does not affect the others.
            talk.print(f"{part.study.name} could not run: {error.said}", style="yellow", highlight=False)
            done[part.folder] = _Done(part, because=error.said)
            continue
        if asked.output is None:
            write_index(RUNS)
        if _is_ended(done):
            break
    if deadline is not None:
        continued = [*_finish(done, asked, deadline), *_decide(done, asked, deadline)]
        for folder in dict.fromkeys(continued):
            done[folder].print(asked)
    index = write_index(RUNS) if asked.output is None else None
    if asked.quiet:
        print_json({"studies": [each.as_json() for each in done.values()]})
    elif index is not None:
        data.print(f"all studies: {index}", soft_wrap=True)
    if not all(each.is_whole for each in done.values()):
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _finish(done: dict[Path, _Done], asked: _Asked, deadline: float) -> list[Path]:
    """Measures the planned points for which a share of the time was too short; returns the studies continued."""
    continued = []
    for folder, each in done.items():
        left = deadline - time.monotonic()
        if _is_ended(done) or left <= 0:
            break
        if each.ending == "out of time":
            done[folder] = _run(replace(each.part, seconds=left), asked, may_repeat=False)
            continued.append(folder)
    return continued


def _decide(done: dict[Path, _Done], asked: _Asked, deadline: float) -> list[Path]:
    """Repeats open findings, the study with the cheapest decision first; returns the studies repeated."""
    tried: set[tuple[Path, int]] = set()
    while not _is_ended(done):
        left = deadline - time.monotonic()
        open_ones = [
            (each.next_decision_seconds, folder)
            for folder, each in done.items()
            if each.next_decision_seconds <= left and (folder, each.repeated) not in tried
        ]
        if not open_ones:
            break
        _, folder = min(open_ones)
        tried.add((folder, done[folder].repeated))
        done[folder] = _run(replace(done[folder].part, seconds=left), asked, may_repeat=True, looks=1)
    return list(dict.fromkeys(folder for folder, _ in tried))


def _is_ended(done: dict[Path, _Done]) -> bool:
    """Returns true if nothing more is to be measured, in no study."""
    return any(each.ending in ("interrupted", "cluster lost") for each in done.values())


@dataclass(frozen=True)
class _Done:
    """The outcome of a study."""

    part: _Part
    findings: Findings | None = None
    ending: str = "could not run"
    report: Path | None = None
    because: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.findings is not None and self.findings.is_whole and self.ending != "cluster lost"

    @property
    def repeated(self) -> int:
        return 0 if self.findings is None else self.findings.repeated

    @property
    def next_decision_seconds(self) -> float:
        """The time that the cheapest next decision would take; infinite if there is none."""
        times = [] if self.findings is None else [each.seconds_to_decide for each in self.findings.verdicts]
        return min((each for each in times if each is not None), default=math.inf)

    def print(self, asked: _Asked) -> None:
        """Prints the outcome for people."""
        from sojourn.report.study.terminal import print_findings

        if self.findings is not None and not asked.quiet:
            print_findings(self.findings, data)
            print_where(self.report)

    def as_json(self) -> dict[str, object]:
        """The outcome for programs."""
        if self.findings is None:
            return {"study": self.part.study.name, "ending": self.ending, "because": self.because}
        return {**self.findings.as_json(), "ending": self.ending, "report": self.report and str(self.report)}


def _run(part: _Part, asked: _Asked, *, may_repeat: bool, looks: int | None = None) -> _Done:
    from sojourn.commands.progress import Stages
    from sojourn.machine import environment
    from sojourn.report.study import page
    from sojourn.study import kinds, runner
    from sojourn.study.findings import find
    from sojourn.study.folder import StudyFolder
    from sojourn.study.points import Point, in_order
    from sojourn.text import format
    from sojourn.workload.site import work_folder

    study, path = part.study, part.folder
    folder = StudyFolder.begin(path, study, part.text)
    folder.add_environment(environment.describe())
    with (
        closing(folder),
        Stages(talk, quiet=asked.quiet, page=asked.page) as stages,
        work_folder(asked.work_dir, path) as work,
    ):
        measure = kinds.measure(
            study, part.file, folder, work, asked.fleet, stages.line if stages.shows_lines else None
        )
        left = sum(not folder.has(point) for point in in_order(study))
        if not asked.quiet:
            takes = format.duration(runner.estimate_seconds(study, left))
            talk.print(f"{study.name}: {left:,} points to measure, about {takes}; Ctrl-C keeps them", highlight=False)
        stages.begin(study.name, len(in_order(study)))
        taken = 0

        def told(progress: runner.Progress, point: Point, seconds: float) -> None:
            named = " ".join(str(value) for value in point.settings.values())
            stages.update(progress.done, progress.points, named, seconds)

        def more(seconds: float | None) -> list[Point]:
            nonlocal taken
            taken += 1
            if not (study.until_decided and may_repeat) or (looks is not None and taken > looks):
                return []
            return find(folder).open_points(seconds)

        # A load is measured beside nothing else, with the server and the folder of sites of this machine.
        tasks = asked.tasks if kinds.is_of_models(study) else None
        progress = runner.run(folder, measure, budget_seconds=part.seconds, more=more, told=told, tasks=tasks)
        if progress.ending == "interrupted":
            # The result must be printed, however often you type Ctrl-C.
            interrupts.ignore_from_now_on()
        with interrupts.held(to_the_end=True):
            findings = find(folder, progress.missing)
            report = page.write(folder, findings)
        failed = f"{progress.failed:,} failed, " if progress.failed else ""
        repeated = f" ({progress.repeated:,} of them to decide what was open)" if progress.repeated else ""
        stages.done(
            f"{progress.ending}: {progress.measured:,} points measured{repeated}, "
            f"{failed}{progress.before:,} from earlier runs"
        )
        if progress.cluster_lost_because is not None:
            talk.print(f"{study.name}: {progress.cluster_lost_because}", style="yellow", highlight=False)
    return _Done(part, findings, progress.ending, report)
