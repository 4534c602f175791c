"""The options that `sojourn load` and `sojourn replay` add to the engine's: outputs, thresholds, machines.

A command takes them as one parameter, `run_options: RunOptions`; `with_run_options` spreads that parameter into the
options on the command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.cluster_option import PANEL, ClusterOption, ClusterText, InsecureFlag
from sojourn.commands.cluster_option import read_options as read_cluster
from sojourn.commands.help import FurtherOption
from sojourn.commands.option_groups import spread
from sojourn.commands.web_option import WEB_HELP, WebPort
from sojourn.failure import CouldNotRun

_OUTPUTS = "Outputs and verdicts"
_PROBE = "Resource usage of the server"


@dataclass(frozen=True)
class RunOptions:
    show_help: bool
    show_all_help: bool
    output_format: str
    live: bool | None
    web: bool
    """Whether a page on this machine shows the progress, too."""
    web_port: int
    output: Path | None
    files: Mapping[str, Path]
    """Output files by format name."""
    thresholds: Sequence[str]
    cluster: ClusterOption
    """The machines that generate the load, if several."""
    weights: Sequence[float] | None
    """Shares of the load by machine."""
    accepts_lost_machines: bool
    probe: bool
    probe_pids: Sequence[int]
    probe_port: int | None
    probe_interval: str
    line: str | None
    """The bandwidth of the server's network link, as typed."""

    @property
    def wants_probe(self) -> bool:
        """Returns true if any option asks for a probe of the server."""
        return self.probe or bool(self.probe_pids) or self.probe_port is not None

    @property
    def wants_more_than_the_engine(self) -> bool:
        """Returns true if the options need more than the engine alone."""
        more = (self.files, self.thresholds, self.output, self.cluster.target, self.wants_probe, self.line, self.web)
        return any(more)

    def refuse_outputs_of_one_run(self) -> None:
        """Refuses what describes or shows a single run, for a command that makes several."""
        if self.files:
            raise CouldNotRun(
                "--csv, --parquet and --prometheus each describe a single run", "give --output: it stores every run"
            )
        if self.web:
            raise CouldNotRun("--web shows a single run", "leave it out: each run has a line on standard error")


def read_options(
    show_help: Annotated[bool, typer.Option("--help", "-h", help="Show the options that matter most.")] = False,
    show_all_help: Annotated[bool, typer.Option("--help-all", help="Show every option.")] = False,
    output_format: Annotated[str, typer.Option("--format", help="text for people, json for programs.")] = "text",
    live: Annotated[
        bool | None, FurtherOption(help="Show progress [default: if standard error is a terminal].")
    ] = None,
    web: Annotated[bool, typer.Option("--web", help=WEB_HELP)] = False,
    web_port: WebPort = 0,
    output: Annotated[
        Path | None, typer.Option(help="Store the run in this folder, with a report.", rich_help_panel=_OUTPUTS)
    ] = None,
    csv: Annotated[
        Path | None, FurtherOption(help="Write a CSV file with a row per interval.", rich_help_panel=_OUTPUTS)
    ] = None,
    parquet: Annotated[
        Path | None, FurtherOption(help="Write a Parquet file with a row per interval.", rich_help_panel=_OUTPUTS)
    ] = None,
    prometheus: Annotated[
        Path | None, FurtherOption(help="Write a file in Prometheus' text format.", rich_help_panel=_OUTPUTS)
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 unless this holds: p99<250ms, error_rate<1%, rps>=1000/s; repeatable.",
            rich_help_panel=_OUTPUTS,
        ),
    ] = None,
    cluster: ClusterText = None,
    insecure_cluster: InsecureFlag = False,
    shares: Annotated[
        str | None,
        FurtherOption(help="Shares of the load by machine, such as 2,1,1 [default: equal].", rich_help_panel=PANEL),
    ] = None,
    accept_lost_machines: Annotated[
        bool,
        FurtherOption(
            "--accept-lost-machines",
            help="Judge thresholds by the machines that are left.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Probe the process that listens on the URL's port, on this machine.", rich_help_panel=_PROBE
        ),
    ] = False,
    probe_pid: Annotated[
        list[int] | None,
        FurtherOption(help="Probe this process and its descendants; repeatable.", rich_help_panel=_PROBE),
    ] = None,
    probe_port: Annotated[
        int | None, FurtherOption(help="Probe the process that listens on this port.", rich_help_panel=_PROBE)
    ] = None,
    probe_interval: Annotated[str, FurtherOption(help="Time between samples.", rich_help_panel=_PROBE)] = "100ms",
    line: Annotated[
        str | None,
        FurtherOption(
            help="Bandwidth of the server's network link, such as 100Mbit/s, to detect saturation.",
            rich_help_panel=_PROBE,
        ),
    ] = None,
) -> RunOptions:
    """Collects the options as typed."""
    if output_format not in ("text", "json"):
        raise CouldNotRun(f"there is no format {output_format!r}", "--format text or --format json")
    files = {"csv": csv, "parquet": parquet, "prometheus": prometheus}
    return RunOptions(
        show_help=show_help or show_all_help,
        show_all_help=show_all_help,
        output_format=output_format,
        live=live,
        web=web,
        web_port=web_port,
        output=output,
        files={name: path for name, path in files.items() if path is not None},
        thresholds=threshold or (),
        cluster=read_cluster(cluster, insecure_cluster),
        weights=None if shares is None else _weights(shares),
        accepts_lost_machines=accept_lost_machines,
        probe=probe,
        probe_pids=probe_pid or (),
        probe_port=probe_port,
        probe_interval=probe_interval,
        line=line,
    )


def _weights(text: str) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = [0.0]
    if not all(0 < weight < math.inf for weight in weights):
        raise CouldNotRun(f"--shares {text}: a share is a positive number", "--shares 2,1,1")
    return weights


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: its parameter `run_options` becomes the options of a run."""
    return spread(command, "run_options", read_options)
