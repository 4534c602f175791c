"""`sojourn assess --target URL`: assesses a deployed application and prints the answer.

It imports what measures, so help must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sojourn.applications import baseline, prices
from sojourn.applications.pipeline import assess
from sojourn.applications.request import EFFORTS, ApplicationRequest
from sojourn.applications.summary import SUMMARY
from sojourn.applications.target import require_permission
from sojourn.assessment.choices import EffortName
from sojourn.commands.application_options import ApplicationOptions
from sojourn.commands.cluster_option import ClusterOption
from sojourn.commands.formats import Format, data, print_json, print_where, talk
from sojourn.commands.progress import Stages
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.loading.fleet import Fleet
from sojourn.machine import cores
from sojourn.report.application.junit import junit
from sojourn.report.application.markdown import markdown
from sojourn.report.application.page import write_report
from sojourn.report.application.terminal import print_application
from sojourn.results.run_folder import RunFolder
from sojourn.text import quantity
from sojourn.tiers.declaration import parse_all
from sojourn.tiers.watch import Sources
from sojourn.workload.log import LogOptions, require_log

if TYPE_CHECKING:
    from sojourn.report.live.server import LivePage


def assess_application(
    options: ApplicationOptions,
    log: str | None,
    log_options: LogOptions,
    folder: Callable[[], Path],
    effort: EffortName,
    seed: int,
    output_format: Format,
    page: LivePage | None,
    cluster: ClusterOption,
) -> None:
    """Assesses the application, prints the answer and exits with its exit code.

    Raises:
        CouldNotRun: the options do not fit together, or nothing could be measured.
    """
    request = _request(options, log, log_options, effort, seed)
    run = RunFolder.create(folder(), holds=("application.json",), inside="targets")
    quiet = output_format is Format.json
    with ExitStack() as stack:
        fleet = None
        if cluster.target is not None:
            fleet = Fleet(stack.enter_context(cluster.opened(quiet=quiet)), leaves_out=True)
        stages = stack.enter_context(Stages(talk, quiet=quiet, page=page))
        summary = assess(request, run, stages, fleet)
    # On a full disk, the answer on the terminal is all that there is.
    report = write_report(run) if run.written(SUMMARY) is not None else None
    if output_format is Format.json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_application(summary, data)
        print_where(report)
    for path, text in ((options.junit, junit(summary)), (options.markdown, markdown(summary))):
        if path is not None:
            _write(path, text)
    if summary.has_failed:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _request(
    options: ApplicationOptions, log: str | None, log_options: LogOptions, effort: EffortName, seed: int
) -> ApplicationRequest:
    """What is assessed, from the options as typed."""
    assert options.target is not None
    if log is not None:
        require_log(log, log_options.also)
    require_permission(options.target, owned=options.owned)
    if not options.tiers:
        raise CouldNotRun(
            "an application has tiers",
            "give --tier web=port:443 --tier app=unit:NAME …, the tier nearest to clients first",
        )
    return ApplicationRequest(
        log=log,
        log_options=log_options,
        target=options.target,
        tiers=parse_all(options.tiers),
        sources=Sources(
            postgresql=options.postgresql,
            mysql=options.mysql,
            prometheus=options.prometheus,
            php_fpm=options.php_fpm,
            remote_shell=options.remote_shell,
            own_core=cores.plan().generator,
        ),
        endpoints=options.endpoints or [],
        methods=[method.strip().upper() for method in options.methods.split(",")],
        headers=options.headers or [],
        objectives=options.objectives or [],
        required_rate=options.required_rate,
        rate_max=options.rate_max,
        errors_max=quantity.fraction(options.errors_max),
        effort=EFFORTS[effort],
        seed=seed,
        prices=None if options.prices is None else prices.read(options.prices),
        planned=options.changes or [],
        restore=options.restore,
        login=options.login,
        scenario=options.scenario,
        bodies=options.bodies,
        users=options.users,
        required_users=_required_users(options),
        in_sessions=_in_sessions(options, log),
        trust=_trust(options),
        baseline=None if options.baseline is None else (baseline.read(options.baseline), str(options.baseline)),
        fall_max=quantity.fraction(options.fall_max),
        abandoned_max=quantity.fraction(options.abandoned_max),
    )


def _required_users(options: ApplicationOptions) -> int | None:
    if options.required_users is not None and options.scenario is None:
        raise CouldNotRun("--at-users is of a scenario, which has their think times", "give --at-rate")
    if options.required_users is not None and options.required_rate is not None:
        raise CouldNotRun("--at-users and --at-rate exclude each other", "leave one of them out")
    return options.required_users


def _in_sessions(options: ApplicationOptions, log: str | None) -> bool:
    if options.in_sessions and (log is None or options.scenario is not None):
        raise CouldNotRun("--sessions are those of a log whose requests are made", "leave --sessions out")
    return options.in_sessions


def _trust(options: ApplicationOptions) -> list[str]:
    is_https = options.target is not None and options.target.startswith("https:")
    if not is_https and (options.insecure or options.cacert):
        raise CouldNotRun("--insecure and --cacert are of https://", "leave them out")
    return [
        *(["--insecure"] if options.insecure else []),
        *(["--cacert", str(options.cacert)] if options.cacert is not None else []),
        *(["--http", "2"] if options.http2 else []),
    ]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        talk.print(f"cannot write {path}: {error.strerror or error}", highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_RAN_WITH_FAILURES) from error
