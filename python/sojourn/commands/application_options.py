"""The options of `sojourn assess LOG --target URL`, which assesses a deployed application with its tiers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn import interrupts
from sojourn.applications.prices import read as read_prices
from sojourn.applications.target import require_permission
from sojourn.assessment.choices import EffortName
from sojourn.commands.cluster_option import ClusterOption
from sojourn.commands.formats import Format, data, print_json, print_where, talk
from sojourn.commands.help import FurtherOption
from sojourn.commands.option_groups import spread
from sojourn.commands.progress import Stages
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.machine import cores
from sojourn.results.run_folder import RunFolder
from sojourn.text import quantity
from sojourn.tiers.declaration import parse_all
from sojourn.tiers.remote import REMOTE_SHELL
from sojourn.workload.log import LogOptions, require_log

if TYPE_CHECKING:
    from sojourn.report.live.server import LivePage

_PANEL = "An application where it runs"
_option = partial(typer.Option, rich_help_panel=_PANEL)
_further = partial(FurtherOption, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class ApplicationOptions:
    """The parsed options."""

    target: str | None
    tiers: list[str]
    objectives: list[str]
    endpoints: list[str]
    methods: str
    headers: list[str]
    required_rate: float | None
    rate_max: float | None
    errors_max: float
    postgresql: str | None
    mysql: str | None
    prometheus: str | None
    php_fpm: str | None
    remote_shell: str
    owned: bool
    prices: Path | None
    changes: list[str]
    restore: str | None
    login: Path | None
    scenario: Path | None
    bodies: Path | None
    users: int | None
    required_users: int | None
    in_sessions: bool
    insecure: bool
    cacert: Path | None
    http2: bool
    baseline: Path | None
    fall_max: float
    abandoned_max: float
    junit: Path | None
    markdown: Path | None

    def run(
        self,
        log: str | None,
        log_options: LogOptions,
        folder: Callable[[], Path],
        effort: EffortName,
        seed: int,
        output_format: Format,
        page: LivePage | None,
        cluster: ClusterOption,
    ) -> None:
        """Assesses the application, prints the answer and exits with its exit code."""
        # Help must not wait for them.
        with interrupts.importing():
            from sojourn.applications import baseline
            from sojourn.applications.pipeline import assess
            from sojourn.applications.request import EFFORTS, ApplicationRequest
            from sojourn.applications.summary import SUMMARY
            from sojourn.loading.fleet import Fleet
            from sojourn.report.application.junit import junit
            from sojourn.report.application.markdown import markdown
            from sojourn.report.application.page import write_report
            from sojourn.report.application.terminal import print_application
            from sojourn.tiers.watch import Sources

        assert self.target is not None
        if log is not None:
            require_log(log, log_options.also)
        require_permission(self.target, owned=self.owned)
        if not self.tiers:
            raise CouldNotRun(
                "an application has tiers",
                "give --tier web=port:443 --tier app=unit:NAME …, the tier nearest to clients first",
            )
        request = ApplicationRequest(
            log=log,
            log_options=log_options,
            target=self.target,
            tiers=parse_all(self.tiers),
            sources=Sources(
                postgresql=self.postgresql,
                mysql=self.mysql,
                prometheus=self.prometheus,
                php_fpm=self.php_fpm,
                remote_shell=self.remote_shell,
                own_core=cores.plan().generator,
            ),
            endpoints=self.endpoints,
            methods=[method.strip().upper() for method in self.methods.split(",")],
            headers=self.headers,
            objectives=self.objectives,
            required_rate=self.required_rate,
            rate_max=self.rate_max,
            errors_max=self.errors_max,
            effort=EFFORTS[effort],
            seed=seed,
            prices=read_prices(self.prices) if self.prices is not None else None,
            planned=self.changes,
            restore=self.restore,
            login=self.login,
            scenario=self.scenario,
            bodies=self.bodies,
            users=self.users,
            required_users=self._required_users(),
            in_sessions=self._in_sessions(log),
            trust=self._trust(),
            baseline=None if self.baseline is None else (baseline.read(self.baseline), str(self.baseline)),
            fall_max=self.fall_max,
            abandoned_max=self.abandoned_max,
        )
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
        for path, text in ((self.junit, junit(summary)), (self.markdown, markdown(summary))):
            if path is not None:
                _write(path, text)
        if summary.has_failed:
            raise typer.Exit(EXIT_RAN_WITH_FAILURES)

    def _required_users(self) -> int | None:
        if self.required_users is None:
            return None
        if self.scenario is None:
            raise CouldNotRun("--at-users is of a scenario, which has their think times", "give --at-rate")
        if self.required_rate is not None:
            raise CouldNotRun("--at-users and --at-rate exclude each other", "leave one of them out")
        return self.required_users

    def _in_sessions(self, log: str | None) -> bool:
        if self.in_sessions and (log is None or self.scenario is not None):
            raise CouldNotRun("--sessions are those of a log whose requests are made", "leave --sessions out")
        return self.in_sessions

    def _trust(self) -> list[str]:
        if self.target is not None and not self.target.startswith("https:") and (self.insecure or self.cacert):
            raise CouldNotRun("--insecure and --cacert are of https://", "leave them out")
        return [
            *(["--insecure"] if self.insecure else []),
            *(["--cacert", str(self.cacert)] if self.cacert is not None else []),
            *(["--http", "2"] if self.http2 else []),
        ]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        talk.print(f"cannot write {path}: {error.strerror or error}", highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_RAN_WITH_FAILURES) from error


def read_options(
    target: Annotated[
        str | None,
        _option(
            "--target", help="Load the application at this URL with the log's own requests; --help-all: its tiers."
        ),
    ] = None,
    tier: Annotated[
        list[str] | None,
        _further(
            "--tier",
            help="NAME=port:N, pid:N, command:REGEX, unit:NAME, cgroup:FOLDER, or NAME=ssh:HOST/…; the tier nearest "
            "to clients first, the database last; repeatable.",
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        _further("--slo", help="'GET /api/*: p95 < 300ms', 'errors < 0.1%'; exit code 1 if one fails; repeatable."),
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        _further("--endpoint", help="Requests like 'GET /api/*', or 'NAME=/api/*', are one endpoint; repeatable."),
    ] = None,
    allow_methods: Annotated[
        str, _further("--allow-methods", help="Methods that the load may use, comma-separated; others are left out.")
    ] = "GET,HEAD",
    login: Annotated[
        Path | None,
        _further(
            "--login", help="How users log in before the load: a scenario file (docs/scenarios.md) with [[login]]."
        ),
    ] = None,
    bodies: Annotated[
        Path | None,
        _further("--bodies", help="Writes of the log with their bodies: a scenario file, or a recording (HAR)."),
    ] = None,
    scenario: Annotated[
        Path | None,
        _further(
            "--scenario", help="Load with this scenario's flows, or a recording (HAR), not with the log's requests."
        ),
    ] = None,
    users: Annotated[
        int | None,
        _further("--users", min=1, help="Users who log in [default: those of the feeder file, at most 50]."),
    ] = None,
    sessions: Annotated[
        bool,
        _further("--sessions", help="Make the log's requests in its sessions, in their order and with their pauses."),
    ] = False,
    insecure: Annotated[
        bool, _further("--insecure", help="Trust any certificate of an https target: nothing is verified.")
    ] = False,
    cacert: Annotated[
        Path | None, _further("--cacert", help="Trust the authorities, or certificates, in this PEM file.")
    ] = None,
    http2: Annotated[bool, _further("--http2", help="Speak HTTP/2, as browsers do where a server offers it.")] = False,
    earlier: Annotated[
        Path | None,
        _further("--baseline", help="An earlier run's folder: exit code 1 if the capacity fell by more than chance."),
    ] = None,
    max_regression: Annotated[
        str, _further("--max-regression", help="Let the capacity be less than the baseline's by this.")
    ] = "0%",
    abandoned_limit: Annotated[
        str, _further("--abandoned-limit", help="Exit code 1 if more of the requests below the knee were abandoned.")
    ] = "1%",
    junit_file: Annotated[Path | None, _further("--junit", help="Write the verdicts here, as JUnit XML.")] = None,
    markdown_file: Annotated[
        Path | None, _further("--markdown", help="Write the answer here, short enough for a pull request.")
    ] = None,
    header: Annotated[
        list[str] | None,
        _further("--header", "-H", help="A header field of each request, such as 'Cookie: session=…'; repeatable."),
    ] = None,
    at_rate: Annotated[
        float | None,
        _further("--at-rate", help="Requests/s at which the objectives must hold [default: the busiest minute's]."),
    ] = None,
    at_users: Annotated[
        int | None,
        _further(
            "--at-users",
            min=1,
            help="Users with whom the objectives must hold, in place of --at-rate: users of the --scenario make the "
            "load, in rising numbers, each waiting for its answers.",
        ),
    ] = None,
    max_rate: Annotated[float | None, _further("--max-rate", help="Never offer more requests/s than this.")] = None,
    max_errors: Annotated[str, _further("--max-errors", help="End a rise at this share of failed requests.")] = "5%",
    postgresql: Annotated[
        str | None, _further("--postgresql", help="Read PostgreSQL's statistics with this connection string for psql.")
    ] = None,
    mysql: Annotated[
        str | None,
        _further(
            "--mysql",
            help="Read the statistics of MySQL or MariaDB with these options of its client: '--host=db1 --user=watch'.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None, _further("--prometheus", help="Read the application's metrics at this URL.")
    ] = None,
    php_fpm: Annotated[str | None, _further("--php-fpm", help="Read php-fpm's status page at this URL.")] = None,
    tier_shell: Annotated[
        str, _further("--tier-shell", help="The command that runs {command} on {host}, for remote tiers.")
    ] = REMOTE_SHELL,
    i_own_this: Annotated[
        bool, _further("--i-own-this", help="Load a target on a public network, which you own.")
    ] = False,
    prices: Annotated[
        Path | None,
        _further("--prices", help="A price table (TOML) for changes: currency, per, [prices] app.cores."),
    ] = None,
    change: Annotated[
        list[str] | None,
        _further(
            "--change",
            help="Make this change afterwards, measure, and compare with the prediction: 'app.workers=8->16: COMMAND'; "
            "app.cores=0.5 needs no command; repeatable.",
        ),
    ] = None,
    restore: Annotated[
        str | None, _further("--restore", help="The command that restores the system after each --change.")
    ] = None,
) -> ApplicationOptions:
    """Collects the parsed options into one value."""
    given = {
        "--tier": tier,
        "--slo": slo,
        "--postgresql": postgresql,
        "--mysql": mysql,
        "--prometheus": prometheus,
        "--php-fpm": php_fpm,
        "--change": change,
        "--login": login,
        "--scenario": scenario,
        "--bodies": bodies,
        "--baseline": earlier,
        "--junit": junit_file,
        "--markdown": markdown_file,
    }
    if target is None and (beside := next((name for name, value in given.items() if value), None)):
        raise CouldNotRun(f"{beside} is of an application", "give its URL, too: --target http://127.0.0.1:8000")
    if postgresql is not None and mysql is not None:
        raise CouldNotRun("--postgresql and --mysql exclude each other", "name the database whose tier is the last")
    return ApplicationOptions(
        target=target,
        tiers=tier or [],
        objectives=slo or [],
        endpoints=endpoint or [],
        methods=allow_methods,
        headers=header or [],
        required_rate=at_rate,
        rate_max=max_rate,
        errors_max=quantity.fraction(max_errors),
        postgresql=postgresql,
        mysql=mysql,
        prometheus=prometheus,
        php_fpm=php_fpm,
        remote_shell=tier_shell,
        owned=i_own_this,
        prices=prices,
        changes=change or [],
        restore=restore,
        login=login,
        scenario=scenario,
        bodies=bodies,
        users=users,
        required_users=at_users,
        in_sessions=sessions,
        insecure=insecure,
        cacert=cacert,
        http2=http2,
        baseline=earlier,
        fall_max=quantity.fraction(max_regression),
        abandoned_max=quantity.fraction(abandoned_limit),
        junit=junit_file,
        markdown=markdown_file,
    )


def with_application_options(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: its parameter `application` becomes these options."""
    return spread(command, "application", read_options)
