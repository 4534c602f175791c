"""`sojourn probe`: samples a server's resource usage, live or to a file, with or without a load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.live import Live

from sojourn import engine, interrupts
from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.help import FurtherOption
from sojourn.commands.web_option import WebFlag, WebPort, live_page
from sojourn.engine.results import ProbeHeader, ProbeRow
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.probe import files
from sojourn.probe.profile import Profiler
from sojourn.probe.recording import Recording
from sojourn.probe.totals import summary
from sojourn.report.probe.flame_graph import flame_graph
from sojourn.report.probe.live import HEAD, print_totals, rows, title, view
from sojourn.results import writing

if TYPE_CHECKING:
    from sojourn.report.live.server import LivePage

_VIEWS_PER_SECOND = 2.0
_PROFILE_BEGINS_SECONDS = 1.0
"""Until then a perf that has failed ends the command: there is not much to lose yet."""
SOURCES = ("processes", "cgroup", "software", "tracepoints", "processor", "cores", "pressure", "network", "site")


def register(app: typer.Typer) -> None:
    app.command("probe", context_settings={"allow_interspersed_args": False})(_probe)


def _probe(
    command: Annotated[
        list[str] | None, typer.Argument(help="Start this command and probe it: -- COMMAND ARGUMENTS.")
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Probe this process and its descendants; repeatable.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Probe the processes that listen on this port, and their accept queue."),
    ] = None,
    cgroup: Annotated[
        Path | None, FurtherOption(help="Probe a control group, given by its folder (version 1 or 2).")
    ] = None,
    observe_core: Annotated[
        int | None, FurtherOption(help="Report the time of this core [default: all together].")
    ] = None,
    sources: Annotated[
        str | None,
        FurtherOption(help=f"Read only these, comma-separated: {', '.join(SOURCES)} [default: all]."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(help="A site's folder: its pages are dropped first, and its resident pages reported."),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory limit of the command, including page cache: 64MiB; needs root.")
    ] = None,
    disk_read_limit: Annotated[
        str | None, FurtherOption(help="Read rate limit of the site's disk: 20MiB/s; needs root.")
    ] = None,
    disk_iops_limit: Annotated[
        int | None, FurtherOption(min=1, help="Limit of read operations per second of that disk: 100; needs root.")
    ] = None,
    cpu_limit: Annotated[
        float | None, typer.Option(help="CPU limit of the command: 0.25 is a quarter of a processor; needs root.")
    ] = None,
    drop_pages: Annotated[
        Literal["none", "site", "machine"],
        FurtherOption(help="The pages to drop from memory before the command starts."),
    ] = "site",
    interval: Annotated[str, typer.Option(help="Time between samples.")] = "100ms",
    duration: Annotated[
        str | None, typer.Option(help="End after this long [default: at Ctrl-C, or when the processes have ended].")
    ] = None,
    core: Annotated[int | None, typer.Option(help="Pin the probe to this core, not the server's.")] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(help="Write the samples: FILE.parquet, FILE.json or FILE.prom; repeatable."),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="Also profile with perf, and write a flame graph: FILE.svg.")
    ] = None,
    web: WebFlag = False,
    web_port: WebPort = 0,
    output_format: FormatOption = Format.text,
) -> None:
    """Sample what processes use: CPU, faults, switches, memory, descriptors, disk, queues, perf events, cache misses.

    Each source is tried at the start. Counters that the machine does not offer are listed with the reason, never as 0.
    Totals are shown as rates; a CPU rate is in cores. To observe a remote host, run the command there.

    Examples: sojourn probe --port 8080 --output server.parquet

    sojourn probe --duration 10s -- nginx -g 'daemon off;'

    sojourn probe --site www --memory-limit 64MiB -- sojourn-engine serve www
    """
    for path in output or []:
        files.check_name(path)
    arguments = ["probe", "--interval", interval]
    for name, value in (
        ("--port", port),
        ("--sources", sources),
        ("--cgroup", cgroup),
        ("--observe-core", observe_core),
        ("--site", site),
        ("--memory-limit", memory_limit),
        ("--disk-read-limit", disk_read_limit),
        ("--disk-iops-limit", disk_iops_limit),
        ("--cpu-limit", cpu_limit),
        ("--drop-pages", drop_pages),
        ("--duration", duration),
        ("--core", core),
    ):
        arguments += [] if value is None else [name, str(value)]
    for each in pid or []:
        arguments += ["--pid", str(each)]
    drawing = _FlameGraph(profile) if profile else None
    draws = talk.is_terminal and output_format is Format.text
    with interrupts.held(to_the_end=True):
        with live_page(web, web_port, "sojourn probe") as page:
            recording = _recorded([*arguments, "--format", "json", "--", *(command or [])], draws, drawing, page)
        for path in output or []:
            if files.write(path, recording):
                talk.print(f"wrote {path}", soft_wrap=True)
        if output_format is Format.json:
            print_json(summary(recording).as_json())
        else:
            print_totals(recording, data)
        # Last: perf may fail, and the samples are not to be lost by that.
        if drawing is not None:
            drawing.write()


class _FlameGraph:
    """The CPU profile taken along with the samples."""

    def __init__(self, path: Path) -> None:
        if path.suffix != ".svg" or not path.parent.is_dir():
            raise CouldNotRun(
                f"{path} is not a file name for a flame graph", "give a name that ends in .svg, in a folder"
            )
        self._path = path
        self._profiler: Profiler | None = None

    def begin(self, pids: list[int]) -> None:
        """Starts profiling, once the probe knows the processes."""
        if not pids:
            raise CouldNotRun("a profile needs processes", "give --pid, --port or a command")
        self._profiler = Profiler(pids)

    def check(self) -> None:
        """Raises `CouldNotRun` if perf has failed already."""
        assert self._profiler is not None
        self._profiler.check()

    def write(self) -> None:
        """Ends profiling and writes the flame graph; ends the command if there is none."""
        assert self._profiler is not None
        try:
            taken = self._profiler.end()
        except CouldNotRun as failure:
            talk.print(str(failure), soft_wrap=True)
            raise typer.Exit(EXIT_RAN_WITH_FAILURES) from None
        if writing.write(self._path, flame_graph(taken, "CPU time by function").encode()):
            talk.print(f"wrote {self._path}: {taken.samples:,} samples", soft_wrap=True)


def _recorded(arguments: list[str], draws: bool, drawing: _FlameGraph | None, page: LivePage | None) -> Recording:
    lines = engine.lines(arguments)
    recording = Recording.begin(ProbeHeader.model_validate_json(next(lines)))
    if drawing is not None:
        drawing.begin(recording.pids)
    with Live(console=talk, refresh_per_second=_VIEWS_PER_SECOND, auto_refresh=False, transient=True) as live:
        shown = 0.0
        for line in lines:
            row = ProbeRow.model_validate_json(line)
            recording.add(row)
            if drawing is not None and row.time_seconds < recording.time_seconds[0] + _PROFILE_BEGINS_SECONDS:
                drawing.check()
            if (draws or page is not None) and row.time_seconds >= shown + 1 / _VIEWS_PER_SECOND:
                shown = row.time_seconds
                if draws:
                    live.update(view(recording), refresh=True)
                if page is not None:
                    page.table(title(recording), [HEAD, *rows(recording)])
    if not recording.rows:
        raise CouldNotRun("the probe took no sample")
    return recording
