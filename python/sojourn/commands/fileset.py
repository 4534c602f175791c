"""`sojourn fileset`: writes the files that a workload requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.help import Group
from sojourn.commands.log_options import with_log_options
from sojourn.commands.progress import Stages
from sojourn.report.terminal import print_pairs
from sojourn.text import format, quantity
from sojourn.workload import fileset
from sojourn.workload.fileset import FileSet, LogNormal
from sojourn.workload.log import LogOptions, import_log_to_file, is_trace, open_trace

Output = Annotated[Path, typer.Option(help="The folder to write; existing files of the set are kept.")]
Limit = Annotated[str, typer.Option("--content-limit", help="Refuse to write a larger set.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the totals and write nothing.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same files.")]


def register(app: typer.Typer) -> None:
    """Registers the command and its kinds."""
    kinds = typer.Typer(cls=Group, no_args_is_help=True, help=_HELP)
    kinds.command("webstone")(_webstone)
    kinds.command("web99")(_web99)
    kinds.command("lognormal")(_lognormal)
    kinds.command("from-log")(with_log_options(_from_log))
    app.add_typer(kinds, name="fileset")


_HELP = """Write the files that a workload asks for, with a manifest and a WebStone file list.

The same parameters give the same files. What is there already is kept, so an interrupted run goes on. The disk's room
is checked first.

Example: sojourn fileset web99 --load 200 --output /srv/web99
"""


def _webstone(
    output: Output, content_limit: Limit = "20GB", dry_run: DryRun = False, output_format: FormatOption = Format.text
) -> None:
    """Write WebStone's five files, 500 bytes to 5 MB.

    Example: sojourn fileset webstone --output site && sojourn load URL --mix site/filelist --clients 20
    """
    _write(fileset.webstone(), output, content_limit, dry_run, output_format)


def _web99(
    output: Output,
    load: Annotated[int, typer.Option(help="The number of connections, which determines the size of the set.")] = 100,
    content_limit: Limit = "20GB",
    dry_run: DryRun = False,
    output_format: FormatOption = Format.text,
) -> None:
    """Write a SPECweb99-like set: 36 files in each of 25 + 0.66 x load directories, 4.88 MiB per directory.

    Example: sojourn fileset web99 --load 1000 --output site --dry-run
    """
    _write(fileset.web99(load), output, content_limit, dry_run, output_format)


def _lognormal(
    output: Output,
    files: Annotated[int, typer.Option(help="The number of files.")] = 1000,
    mean: Annotated[str, typer.Option(help="The mean size of the body.")] = "8kB",
    cv: Annotated[float, typer.Option(help="The coefficient of variation of the body.")] = 3.0,
    tail_index: Annotated[
        float | None, typer.Option(help="Give the largest files a Pareto tail of this index [default: no tail].")
    ] = None,
    tail_fraction: Annotated[float, typer.Option(help="The share of the files in the tail.")] = 0.01,
    largest: Annotated[str, typer.Option(help="The largest file.")] = "1GB",
    zipf: Annotated[float, typer.Option(help="The exponent of Zipf popularity; 0 for equal popularity.")] = 1.0,
    seed: SeedOption = 1,
    content_limit: Limit = "20GB",
    dry_run: DryRun = False,
    output_format: FormatOption = Format.text,
) -> None:
    """Write files with log-normal sizes, optionally a Pareto tail, and Zipf popularity.

    Example: sojourn fileset lognormal --files 10000 --mean 10kB --cv 3 --tail-index 1.2 --output site
    """
    law = LogNormal(
        files=files,
        mean_bytes=quantity.size_bytes(mean),
        cv=cv,
        tail_index=tail_index,
        tail_fraction=tail_fraction,
        largest_bytes=quantity.size_bytes(largest),
        zipf=zipf,
        seed=seed,
    )
    _write(fileset.lognormal(law), output, content_limit, dry_run, output_format)


def _from_log(
    log: Annotated[str, typer.Argument(help="An access log or a trace.")],
    output: Output,
    seed: SeedOption = 1,
    content_limit: Limit = "20GB",
    dry_run: DryRun = False,
    output_format: FormatOption = Format.text,
    *,
    log_options: LogOptions,
) -> None:
    """Write a file of the right size for each document of a log, at the path where `sojourn replay` requests it.

    Example: sojourn fileset from-log access.log.gz --output site
    """
    with Stages(talk, quiet=output_format is Format.json) as stages:
        stages.begin("import")
        if is_trace(log):
            trace = open_trace(log, log_options)
        else:
            trace, _ = import_log_to_file(log, None, log_options, seed, stages.update)
        stages.done(f"{len(trace):,} requests")
    _write(fileset.from_trace(trace, log), output, content_limit, dry_run, output_format)


def _write(files: FileSet, output: Path, content_limit: str, dry_run: bool, output_format: Format) -> None:
    written = None
    if not dry_run:
        with Stages(talk, quiet=output_format is Format.json) as stages:
            stages.begin("files")
            written = fileset.write(files, output, quantity.size_bytes(content_limit), stages.update)
            stages.done(f"{written:,} of {len(files.files):,} files written in {output}")
    if output_format is Format.json:
        print_json(files.summary() | {"output": str(output), "files_written": written})
        return
    pairs = [
        ("Files", format.count(len(files.files))),
        ("Total size", format.size(files.total_bytes)),
        ("Mean response", format.size(files.response_bytes_mean)),
        ("Written", "nothing: a dry run" if written is None else format.count(written)),
    ]
    print_pairs(pairs, data)
