"""`sojourn trace`: imports a log and characterises it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.cluster_option import ClusterOption, with_cluster_option
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.log_options import as_one, with_log_options
from sojourn.commands.progress import Stages
from sojourn.report.assessment.terminal import print_trace
from sojourn.results import writing
from sojourn.text import quantity
from sojourn.workload import site
from sojourn.workload.characteristics import LogImport
from sojourn.workload.log import LogOptions, TraceNotWritten, import_log_to_file
from sojourn.workload.log_pieces import OnWorkers, are_parsed_elsewhere


def register(app: typer.Typer) -> None:
    app.command("trace")(with_cluster_option(with_log_options(_trace)))


def _trace(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Access logs, folders or patterns, read as one; or - for standard input."
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="Write the trace to this file, for `sojourn replay`.")] = None,
    build_site: Annotated[
        Path | None, typer.Option(help="Build a site in this folder: a file of the right size per document.")
    ] = None,
    content_limit: Annotated[str, typer.Option(help="Refuse to build a larger site.")] = "20GB",
    seed: Annotated[int, typer.Option(min=0, help="Seed for spreading requests within their second.")] = 1,
    output_format: FormatOption = Format.text,
    *,
    log_options: LogOptions,
    cluster: ClusterOption,
) -> None:
    """Import an access log and characterise it: rates, sizes, popularity, sessions.

    The format is detected unless you give it. Malformed lines are counted and the first few shown; requests with a
    query are set aside as dynamic; every distinct (path, size) is a document; a client that pauses for less than the
    session gap stays in its session.

    All cores parse the log. With --cluster, workers on other machines do, which must find it under the same path; the
    result is the same.

    Examples: sojourn trace access.log.gz --output access.trace --format json

    sojourn trace access.log access.log.1.gz archive/

    sojourn trace access.log --log-format '%h %l %u %t "%r" %>s %b %D' --from 2026-11-21T10:00:00 --path '/img/*'
    """
    log, log_options = as_one(logs, log_options)
    quiet = output_format is Format.json
    with ExitStack() as stack:
        parsing = None
        if are_parsed_elsewhere(cluster.target):
            parsing = OnWorkers(stack.enter_context(cluster.opened(quiet=quiet)))
        stages = stack.enter_context(Stages(talk, quiet=quiet))
        stages.begin("import")
        # An application's log may have nothing to replay, but its statistics are still useful.
        only_said = output is None and build_site is None
        try:
            trace, report = import_log_to_file(
                log, output, log_options, seed, stages.update, may_be_empty=only_said, parsing=parsing
            )
        except TraceNotWritten as failure:
            # The characteristics are printed even if the trace cannot be written, provided that the log can be read
            # again.
            if output is None or log == "-":
                raise
            writing.missed(output, failure.because)
            trace, report = import_log_to_file(log, None, log_options, seed, stages.update, parsing=parsing)
        stages.done(f"{report['lines']:,} lines, {LogImport(report).format()}")
        if build_site is not None:
            stages.begin("site")
            documents = site.documents_of(trace)
            site.build(build_site, documents, quantity.size_bytes(content_limit), stages.update)
            stages.done(f"{len(documents):,} files in {build_site}")
    is_empty = report["requests"] == report["failed_requests"]
    characteristics = {"request_times": trace.request_times()} if is_empty else trace.characterise()
    result = {"import": report, "characteristics": characteristics}
    if output_format is Format.json:
        print_json(result)
    else:
        print_trace(" ".join(logs), result["import"], result["characteristics"], data)
