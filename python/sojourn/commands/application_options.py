"""The options of `sojourn assess LOG --target URL`, which assesses a deployed application with its tiers.

A command takes them as one parameter, `application: ApplicationOptions`; `with_application_options` spreads that
parameter into the options on the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.help import FurtherOption
from sojourn.commands.option_groups import spread
from sojourn.failure import CouldNotRun
from sojourn.text import quantity
from sojourn.tiers.remote import REMOTE_SHELL

_PANEL = "An application where it runs"
_option = partial(typer.Option, rich_help_panel=_PANEL)
_further = partial(FurtherOption, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class ApplicationOptions:
    """The options as typed."""

    target: Annotated[
        str | None,
        _option(
            "--target", help="Load the application at this URL with the log's own requests; --help-all: its tiers."
        ),
    ] = None
    tiers: Annotated[
        list[str] | None,
        _further(
            "--tier",
            help="NAME=port:N, pid:N, command:REGEX, unit:NAME, cgroup:FOLDER, or NAME=ssh:HOST/…; the tier nearest "
            "to clients first, the database last; repeatable.",
        ),
    ] = None
    objectives: Annotated[
        list[str] | None,
        _further("--slo", help="'GET /api/*: p95 < 300ms', 'errors < 0.1%'; exit code 1 if one fails; repeatable."),
    ] = None
    endpoints: Annotated[
        list[str] | None,
        _further("--endpoint", help="Requests like 'GET /api/*', or 'NAME=/api/*', are one endpoint; repeatable."),
    ] = None
    methods: Annotated[
        str, _further("--allow-methods", help="Methods that the load may use, comma-separated; others are left out.")
    ] = "GET,HEAD"
    login: Annotated[
        Path | None,
        _further(
            "--login", help="How users log in before the load: a scenario file (docs/scenarios.md) with [[login]]."
        ),
    ] = None
    bodies: Annotated[
        Path | None,
        _further("--bodies", help="Writes of the log with their bodies: a scenario file, or a recording (HAR)."),
    ] = None
    scenario: Annotated[
        Path | None,
        _further(
            "--scenario", help="Load with this scenario's flows, or a recording (HAR), not with the log's requests."
        ),
    ] = None
    users: Annotated[
        int | None,
        _further("--users", min=1, help="Users who log in [default: those of the feeder file, at most 50]."),
    ] = None
    in_sessions: Annotated[
        bool,
        _further("--sessions", help="Make the log's requests in its sessions, in their order and with their pauses."),
    ] = False
    insecure: Annotated[
        bool, _further("--insecure", help="Trust any certificate of an https target: nothing is verified.")
    ] = False
    cacert: Annotated[
        Path | None, _further("--cacert", help="Trust the authorities, or certificates, in this PEM file.")
    ] = None
    http2: Annotated[bool, _further("--http2", help="Speak HTTP/2, as browsers do where a server offers it.")] = False
    baseline: Annotated[
        Path | None,
        _further("--baseline", help="An earlier run's folder: exit code 1 if the capacity fell by more than chance."),
    ] = None
    fall_max: Annotated[
        str, _further("--max-regression", help="Let the capacity be less than the baseline's by this.")
    ] = "0%"
    abandoned_max: Annotated[
        str, _further("--abandoned-limit", help="Exit code 1 if more of the requests below the knee were abandoned.")
    ] = "1%"
    junit: Annotated[Path | None, _further("--junit", help="Write the verdicts here, as JUnit XML.")] = None
    markdown: Annotated[
        Path | None, _further("--markdown", help="Write the answer here, short enough for a pull request.")
    ] = None
    headers: Annotated[
        list[str] | None,
        _further("--header", "-H", help="A header field of each request, such as 'Cookie: session=…'; repeatable."),
    ] = None
    required_rate: Annotated[
        float | None,
        _further("--at-rate", help="Requests/s at which the objectives must hold [default: the busiest minute's]."),
    ] = None
    required_users: Annotated[
        int | None,
        _further(
            "--at-users",
            min=1,
            help="Users with whom the objectives must hold, in place of --at-rate: users of the --scenario make the "
            "load, in rising numbers, each waiting for its answers.",
        ),
    ] = None
    rate_max: Annotated[float | None, _further("--max-rate", help="Never offer more requests/s than this.")] = None
    errors_max: Annotated[str, _further("--max-errors", help="End a rise at this share of failed requests.")] = "5%"
    postgresql: Annotated[
        str | None, _further("--postgresql", help="Read PostgreSQL's statistics with this connection string for psql.")
    ] = None
    mysql: Annotated[
        str | None,
        _further(
            "--mysql",
            help="Read the statistics of MySQL or MariaDB with these options of its client: '--host=db1 --user=watch'.",
        ),
    ] = None
    prometheus: Annotated[
        str | None,
        _further("--prometheus", help="Read the application's metrics at this URL."),
    ] = None
    php_fpm: Annotated[str | None, _further("--php-fpm", help="Read php-fpm's status page at this URL.")] = None
    remote_shell: Annotated[
        str, _further("--tier-shell", help="The command that runs {command} on {host}, for remote tiers.")
    ] = REMOTE_SHELL
    owned: Annotated[bool, _further("--i-own-this", help="Load a target on a public network, which you own.")] = False
    prices: Annotated[
        Path | None,
        _further("--prices", help="A price table (TOML) for changes: currency, per, [prices] app.cores."),
    ] = None
    changes: Annotated[
        list[str] | None,
        _further(
            "--change",
            help="Make this change afterwards, measure, and compare with the prediction: 'app.workers=8->16: COMMAND'; "
            "app.cores=0.5 needs no command; repeatable.",
        ),
    ] = None
    restore: Annotated[
        str | None, _further("--restore", help="The command that restores the system after each --change.")
    ] = None

    def __post_init__(self) -> None:
        """Refuses what cannot be together, and shares that are none.

        Raises:
            CouldNotRun: there is such an option.
        """
        given = {
            "--tier": self.tiers,
            "--slo": self.objectives,
            "--postgresql": self.postgresql,
            "--mysql": self.mysql,
            "--prometheus": self.prometheus,
            "--php-fpm": self.php_fpm,
            "--change": self.changes,
            "--login": self.login,
            "--scenario": self.scenario,
            "--bodies": self.bodies,
            "--baseline": self.baseline,
            "--junit": self.junit,
            "--markdown": self.markdown,
        }
        if self.target is None and (beside := next((name for name, value in given.items() if value), None)):
            raise CouldNotRun(f"{beside} is of an application", "give its URL, too: --target http://127.0.0.1:8000")
        if self.postgresql is not None and self.mysql is not None:
            raise CouldNotRun("--postgresql and --mysql exclude each other", "name the database whose tier is the last")
        for share in (self.errors_max, self.fall_max, self.abandoned_max):
            quantity.fraction(share)


def with_application_options(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: its parameter `application` becomes these options."""
    return spread(command, "application", ApplicationOptions)
