"""The options of every command that reads a log, declared once.

A command takes them as one parameter, `log_options: LogOptions`; `with_log_options` spreads that parameter into the
options on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from sojourn.commands.help import FurtherOption
from sojourn.commands.option_groups import spread
from sojourn.text import quantity
from sojourn.workload.log import SESSION_GAP, LogOptions

_PANEL = "Log"


class Keep(StrEnum):
    """Requests to keep besides successful GET and HEAD of static documents."""

    failed = "failed"
    queries = "queries"
    methods = "methods"


_option = partial(typer.Option, rich_help_panel=_PANEL)
_further = partial(FurtherOption, rich_help_panel=_PANEL)


def read_options(
    log_format: Annotated[
        str | None,
        _option(
            "--log-format",
            help="common, combined, vhost_combined, squid, w3c, json, alb, haproxy, envoy, s3, worldcup98, or the "
            "server's own LogFormat or log_format string [default: detected].",
        ),
    ] = None,
    json_field: Annotated[
        list[str] | None,
        _further("--json-field", help="MEANING=NAME of a JSON log's field, such as time=ts; repeatable."),
    ] = None,
    session_gap: Annotated[
        str, _further("--session-gap", help="Session timeout: a longer pause of a client starts a new session.")
    ] = SESSION_GAP,
    begin: Annotated[
        str | None, _option("--from", help="Select requests from this time on, such as 2026-11-21T10:00:00.")
    ] = None,
    end: Annotated[str | None, _option("--to", help="Select requests before this time.")] = None,
    status: Annotated[
        list[str] | None, _further("--status", help="Select a status: 200, 4xx or 500-504; repeatable.")
    ] = None,
    method: Annotated[list[str] | None, _further("--method", help="Select this method; repeatable.")] = None,
    path: Annotated[list[str] | None, _option("--path", help="Select paths like /img/* or ~REGEX; repeatable.")] = None,
    host: Annotated[list[str] | None, _further("--host", help="Select hosts like *.example.com; repeatable.")] = None,
    client: Annotated[list[str] | None, _further("--client", help="Select clients like 10.0.*; repeatable.")] = None,
    map_path: Annotated[
        list[str] | None, _further("--map-path", help="OLD=NEW: replace a prefix of paths; repeatable.")
    ] = None,
    map_host: Annotated[
        list[str] | None, _further("--map-host", help="OLD=NEW: rename a host, * for all; repeatable.")
    ] = None,
    keep: Annotated[
        list[Keep] | None,
        _further(
            "--keep",
            help="Also keep failed requests (marked), queries, or other methods (as GET).",
        ),
    ] = None,
    assume_size: Annotated[
        str | None,
        _further("--assume-size", help="The size of documents if the log has none, such as 20kB."),
    ] = None,
) -> LogOptions:
    """Collects the options as typed."""
    kept = keep or []
    return LogOptions(
        session_gap_seconds=quantity.seconds(session_gap),
        log_format=log_format,
        json_fields=tuple(json_field or ()),
        statuses=tuple(status or ()),
        methods=tuple(method or ()),
        paths=tuple(path or ()),
        hosts=tuple(host or ()),
        clients=tuple(client or ()),
        begin=begin,
        end=end,
        path_map=tuple(map_path or ()),
        host_map=tuple(map_host or ()),
        keep_failed=Keep.failed in kept,
        keep_queries=Keep.queries in kept,
        keep_methods=Keep.methods in kept,
        assumed_size_bytes=None if assume_size is None else round(quantity.size_bytes(assume_size)),
    )


def as_one(logs: Sequence[str], options: LogOptions) -> tuple[str, LogOptions]:
    """Returns the first log, with the others moved into the options."""
    first, *also = logs
    return first, replace(options, also=tuple(also))


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: its parameter `log_options` becomes the options of a log."""
    return spread(command, "log_options", read_options)
