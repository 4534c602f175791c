"""Plots of a probed server over the run's time: CPU, waiting, memory, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sojourn.loading.folder import LoadRun
from sojourn.loading.result import Column
from sojourn.probe.merging import PREFIX
from sojourn.report.chart import Chart, Line, Missing, Series
from sojourn.report.load.plots import Plot, over_time, series_of
from sojourn.report.scales import linear
from sojourn.text import format

_LINES: tuple[Line, ...] = ("solid", "dashed", "dotted", "solid")


def processor(run: LoadRun) -> Chart | Missing:
    """Busy cores, split into user and system time."""
    names = {
        "all": "cpu_seconds_per_second",
        "user": "cpu_user_seconds_per_second",
        "system": "cpu_system_seconds_per_second",
        "busiest thread": "busiest_thread_fraction",
    }
    return over_time("server-cpu", "Server: processor", _all(run, names, _cores), "cores", linear, _cores)


def waiting(run: LoadRun) -> Chart | Missing:
    """Queues: connections waiting for the server, and its threads waiting for a resource."""
    names = {"accept queue": "accept_queue", "listen overflows per second": "listen_overflows_per_second"}
    series = _all(run, names, format.count)
    return over_time("server-queue", "Server: accept queue", series, "connections", linear, format.count)


def switches(run: LoadRun) -> Chart | Missing:
    """Context switches and faults per second."""
    names = {
        "voluntary switches": "voluntary_switches_per_second",
        "involuntary switches": "involuntary_switches_per_second",
        "minor faults": "minor_faults_per_second",
        "major faults": "major_faults_per_second",
    }
    return over_time(
        "server-switches", "Server: switches and faults", _all(run, names, format.number), "/s", linear, format.number
    )


def memory(run: LoadRun) -> Chart | Missing:
    names = {"resident": "resident_bytes", "shared pages divided": "proportional_bytes"}
    return over_time("server-memory", "Server: memory", _all(run, names, format.size), "bytes", linear, format.size)


def transfers(run: LoadRun) -> Chart | Missing:
    """Bytes from the disk and through the network namespace."""
    names = {
        "network sent": "network_sent_bytes_per_second",
        "disk read": "disk_read_bytes_per_second",
        "disk written": "disk_written_bytes_per_second",
    }
    series = _all(run, names, format.size)
    return over_time("server-bytes", "Server: bytes", series, "bytes per second", linear, format.size)


def pressure(run: LoadRun) -> Chart | Missing:
    """The share of time in which tasks of the machine waited for a resource."""
    names = {kind: f"{kind}_pressure_some_seconds_per_second" for kind in ("cpu", "memory", "io")}
    series = _all(run, names, format.percent)
    return over_time("server-pressure", "Machine: some task waited", series, "of the time", linear, format.percent)


SERVER: list[Plot] = [processor, waiting, switches, memory, transfers, pressure]
"""The plots in the order of the page."""


def _all(run: LoadRun, names: Mapping[str, str], write: Callable[[float], str]) -> list[Series]:
    table: Mapping[str, Column] = run.result.interval_table
    return [
        series_of(name, number, line, table, PREFIX + column, write)
        for number, ((name, column), line) in enumerate(zip(names.items(), _LINES, strict=False), 1)
    ]


def _cores(value: float) -> str:
    return format.number(value)
