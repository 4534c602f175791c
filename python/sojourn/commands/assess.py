"""`sojourn assess`: assesses a site's or an application's capacity."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn import interrupts, systems
from sojourn.assessment.choices import ALL_CHANGES, CHANGE_NAMES, EffortName, chosen_changes
from sojourn.commands.application_options import ApplicationOptions, with_application_options
from sojourn.commands.cluster_option import ClusterOption, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, data, print_json, print_where, talk
from sojourn.commands.help import Command, FurtherOption
from sojourn.commands.log_options import as_one, with_log_options
from sojourn.commands.progress import Stages
from sojourn.commands.web_option import WebFlag, WebPort, live_page
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.machine import cores
from sojourn.results.run_folder import RunFolder
from sojourn.text import quantity
from sojourn.workload.log import LogOptions, require_log

if TYPE_CHECKING:
    from typer._click import Context

_VERIFY = "--verify"


def register(app: typer.Typer) -> None:
    app.command("assess", cls=WithVerify)(with_cluster_option(with_application_options(with_log_options(_assess))))


def _assess(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG...", help="Access logs, folders or patterns, read as one; or - for standard input."
        ),
    ] = None,
    server: Annotated[
        str, typer.Option(help=f"{', '.join(systems.SYSTEMS)}, or the URL of a running server.")
    ] = "sojourn",
    architecture: Annotated[str, typer.Option(help="Our server's architecture; see `sojourn serve`.")] = "amped",
    access_line: Annotated[
        str | None,
        typer.Option(help="Bandwidth of the site's access line, such as 100Mbit/s; calculated, not emulated."),
    ] = None,
    target_p95: Annotated[str, typer.Option(help="The largest acceptable p95 time to first byte.")] = "200ms",
    output: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/NAME-OF-LOG].")] = None,
    think_scale: Annotated[
        float | None,
        FurtherOption(help="Factor on think times [default: 1, or less to limit open connections]."),
    ] = None,
    content_limit: Annotated[str, FurtherOption(help="Refuse to build a larger site.")] = "20GB",
    work_dir: Annotated[
        Path | None,
        FurtherOption(help="Keep the built site here [default: a temporary one in the run's folder]."),
    ] = None,
    effort: Annotated[
        EffortName,
        typer.Option(
            help="quick: a minute, rough; normal: five; thorough: a quarter of an hour; longer for slow systems."
        ),
    ] = EffortName.normal,
    repetitions: Annotated[
        int | None, FurtherOption(min=1, max=100, help="Climbs of the rising load [default: the effort's].")
    ] = None,
    probe: Annotated[
        bool, FurtherOption(help="Sample the server's resource usage under the rising load, if it runs here.")
    ] = True,
    static_only: Annotated[
        bool, FurtherOption("--static-only", help="Continue even if a static copy represents little of the log.")
    ] = False,
    require_quiet: Annotated[
        bool, FurtherOption("--require-quiet", help="Refuse to measure on a machine with other work.")
    ] = False,
    cpu_limit: Annotated[
        float | None,
        FurtherOption(
            metavar="PROCESSORS",
            min=0.02,
            max=1.0,
            help="CPU limit of the server, like a container's: 0.1 is a tenth of a processor.",
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="[CHANGES]",
            help="Make the answer's changes afterwards, measure, and compare with the predictions: "
            f"{', '.join(CHANGE_NAMES)}; without a value: all that are possible here.",
        ),
    ] = None,
    seed: Annotated[int, FurtherOption(min=0, help="Seed of all random draws.")] = 1,
    web: WebFlag = False,
    web_port: WebPort = 0,
    output_format: FormatOption = Format.text,
    *,
    log_options: LogOptions,
    application: ApplicationOptions,
    cluster: ClusterOption,
) -> None:
    """Find out how much traffic a site can take on this machine, what its bottleneck is, and what to change.

    Imports the log, builds its site, measures the server's demand by document size, then replays the log's own
    sessions at rising load up to the knee, fits and validates a queueing model, and writes a report. Server and
    generator run on separate cores. Ctrl-C keeps what was measured, marked incomplete.

    A server given by URL must already serve the site: build it with `sojourn trace LOG --build-site DIR`.

    With --target, the command assesses a deployed application: it sends the log's own requests, grouped by endpoint,
    at rising load and watches each --tier. The answer names the tier that is the bottleneck, and the reason.

    With --cluster, workers generate the rising load: of a site with this machine, which watches the server; of an
    application without it. Those on other machines also parse the log of a site.

    Examples: sojourn assess access.log.gz --access-line 100Mbit/s --target-p95 200ms

    sojourn assess access.log --target http://127.0.0.1:8000 --tier app=port:8000 --tier db=port:5432
    """
    title = f"sojourn assess {' '.join(logs or [str(application.scenario)])}"
    log: str | None = None
    if logs:
        log, log_options = as_one(logs, log_options)
    elif application.scenario is None:
        raise CouldNotRun("there is no log", "sojourn assess LOG; an application also by --target URL --scenario FILE")
    # Help must not wait for what measures.
    if log is None or application.target is not None:
        with interrupts.importing():
            from sojourn.commands.assess_application import assess_application

        def output_folder() -> Path:
            return output or _default_output(log or str(application.scenario))

        with live_page(web, web_port, title) as page:
            assess_application(application, log, log_options, output_folder, effort, seed, output_format, page, cluster)
        return
    with interrupts.importing():
        from sojourn.assessment.pipeline import assess
        from sojourn.assessment.request import EFFORTS, Request
        from sojourn.loading.fleet import Fleet
        from sojourn.report.assessment.terminal import print_summary

    if cpu_limit is not None and verify is not None:
        raise CouldNotRun("--verify makes changes to a server with a whole processor", "leave out --cpu-limit")
    request = Request(
        log=log,
        server=systems.find(server),
        architecture=architecture,
        target_p95_seconds=quantity.seconds(target_p95),
        access_line_bits_per_second=None if access_line is None else quantity.bits_per_second(access_line),
        log_options=log_options,
        think_scale=think_scale,
        content_limit_bytes=quantity.size_bytes(content_limit),
        work_dir=work_dir,
        probe=probe,
        seed=seed,
        effort=EFFORTS[effort].with_repetitions(repetitions),
        static_only=static_only,
        require_quiet=require_quiet,
        processors=cpu_limit,
        verify=() if verify is None else chosen_changes(verify),
    )
    if cpu_limit is not None and not request.server.builds_site:
        raise CouldNotRun(
            "--cpu-limit limits a server that is started here",
            "limit the running server yourself, and leave --cpu-limit out",
        )
    require_log(log, log_options.also)
    folder = RunFolder.create(output or _default_output(log))
    quiet = output_format is Format.json
    with ExitStack() as stack:
        fleet = None
        if cluster.target is not None:
            # Workers on this machine generate load: on the server's core they would be part of what is measured.
            with cores.keep_off_server_core(cores.plan()):
                fleet = Fleet(stack.enter_context(cluster.opened(quiet=quiet)))
        page = stack.enter_context(live_page(web, web_port, title))
        stages = stack.enter_context(Stages(talk, quiet=quiet, page=page))
        summary = assess(request, folder, stages, fleet)
        if not summary.complete:
            # The answer must be printed, however often you type Ctrl-C.
            interrupts.ignore_from_now_on()
        report = _drawn(folder)
    if output_format is Format.json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_summary(summary, data)
        print_where(report)
    if not summary.complete or report is None:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _drawn(folder: RunFolder) -> Path | None:
    """Writes the report; without one the answer is printed all the same."""
    from sojourn.report.assessment.page import write_report

    try:
        if folder.written("summary.json") is not None:
            return write_report(folder)
    except CouldNotRun as failure:
        talk.print(f"no report: {failure.said}", highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        talk.print(f"no report: interrupted; sojourn report {folder.path} draws it", highlight=False, soft_wrap=True)
    return None


def _name_of(log: str) -> str:
    """A plain name for a run of a log, which may also be a folder, a hidden file or a pattern."""
    # The path `.` has no name before it is absolute.
    plain = re.sub(r"[^\w.-]+", "-", Path(os.path.abspath(log)).name)
    return plain.lstrip(".").split(".")[0].strip("-") or "log"


def _default_output(log: str) -> Path:
    name = "stdin" if log == "-" else _name_of(log)
    candidates = (Path("runs") / (name if count == 1 else f"{name}-{count}") for count in range(1, 10_000))
    kept = ("summary.json", "application.json")
    return next(each for each in candidates if not any((each / name).exists() for name in kept))


class WithVerify(Command):
    """A command with `--verify`, whose value is optional; without one it means all changes.

    The option parser does not support optional values. The word after `--verify` counts as its value only if it names
    changes, so that `sojourn assess --verify access.log` works as expected.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parses the command line after adding the default value of `--verify`."""
        return super().parse_args(ctx, with_value(args))


def with_value(words: Sequence[str]) -> list[str]:
    """Inserts `all` after a `--verify` that no changes follow."""
    whole: list[str] = []
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        whole.append(word)
        if word == _VERIFY and not _names_changes(behind):
            whole.append(ALL_CHANGES)
    return whole


def _names_changes(word: str) -> bool:
    # One known name is enough: a misspelt one beside it is then refused by name.
    return word == ALL_CHANGES or any(part.strip() in CHANGE_NAMES for part in word.split(","))
