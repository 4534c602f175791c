"""One cell: a server with a film of a rate, what so many streams cost it, and how many it carries."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.stream.contestants import Contestant, Running, running
from sojourn.cores import Cores
from sojourn.failure import CouldNotRun
from sojourn.loading.load_search import LoadSearch
from sojourn.loading.probed import probed
from sojourn.loading.run import Runner, run_load
from sojourn.loading.search import Found
from sojourn.loading.threshold import Threshold
from sojourn.probe.companion import Watched
from sojourn.probe.processes import tree

CONDITION = "conforming>=99%"
PROBE_INTERVAL = "200ms"


@dataclass(frozen=True)
class Effort:
    """How long and how precisely is measured."""

    cost_clients: int
    """Streams under which costs are measured: few enough for every server."""
    seconds: int
    search_clients: int
    """Where the search begins."""
    search_seconds: int
    search_budget_seconds: float
    precision: float


@dataclass(frozen=True)
class Cell:
    """What was measured; None where it was not, with the reason in `trouble`."""

    contestant: str
    rate: str
    transport: str
    clients: int
    conforming_fraction: float | None = None
    cpu_seconds_per_stream_second: float | None = None
    resident_bytes_per_stream: float | None = None
    behind_p99_seconds: float | None = None
    bits_per_second_per_stream: float | None = None
    generator_limited_because: str | None = None
    capacity: float | None = None
    capacity_low: float | None = None
    capacity_high: float | None = None
    ending: str | None = None
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As a line of the results' file."""
        return dataclasses.asdict(self)


def measure(contestant: Contestant, film: Path, rate: str, transport: str, effort: Effort, cores: Cores) -> Cell:
    """Starts the server anew for the costs and for the search."""
    cell = Cell(contestant.name, rate, transport, effort.cost_clients)
    try:
        with running(contestant, film, cores.server) as server:
            cell = _costs(cell, server, effort, cores)
        with running(contestant, film, cores.server) as server:
            found = _search(server, transport, effort, cores)
    except CouldNotRun as error:
        return dataclasses.replace(cell, trouble=error.what)
    return dataclasses.replace(
        cell, capacity=found.capacity, capacity_low=found.low, capacity_high=found.high, ending=found.ending
    )


def _costs(cell: Cell, server: Running, effort: Effort, cores: Cores) -> Cell:
    idle = resident_bytes(server.pid)
    words = _words(server, cell.transport, effort.cost_clients, effort.seconds, cores)
    record = _runner(server)(words, None).record
    streams = record["streaming"]["streams"]
    if streams["played_seconds"] == 0:
        refused = {f"refused with {code}": count for code, count in streams["refused_by_status"].items()}
        causes = {**refused, **streams["failures_by_cause"]}
        said = ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in causes.items())
        raise CouldNotRun(f"{cell.contestant}, {cell.rate}, {cell.transport}: no stream played: {said}")
    probe = record["probe"]
    resident = probe["counters"].get("resident_bytes", {}).get("maximum")
    return dataclasses.replace(
        cell,
        conforming_fraction=streams["conforming_fraction"],
        cpu_seconds_per_stream_second=_number(probe["cpu_seconds_per_stream_second"]),
        resident_bytes_per_stream=None if resident is None else (resident - idle) / effort.cost_clients,
        behind_p99_seconds=record["behind_seconds"]["p99"],
        bits_per_second_per_stream=(record["streaming"]["bit_rate"] or {}).get("mean_bits_per_second"),
        generator_limited_because=record["generator"]["limited_because"],
    )


def _search(server: Running, transport: str, effort: Effort, cores: Cores) -> Found:
    words = _words(server, transport, effort.search_clients, effort.search_seconds, cores)
    runner = _runner(server)
    search = LoadSearch(
        words,
        [Threshold.parse(CONDITION)],
        lambda point: runner(point, None),
        budget_seconds=effort.search_budget_seconds,
        precision=effort.precision,
    )
    return search.run()


def _runner(server: Running) -> Runner:
    return probed(run_load, Watched((server.pid,), None, PROBE_INTERVAL))


def _words(server: Running, transport: str, clients: int, seconds: int, cores: Cores) -> list[str]:
    words = [server.url, "--clients", str(clients), "--duration", f"{seconds}s", "--transport", transport]
    return words if cores.generator is None else [*words, "--core", str(cores.generator)]


def resident_bytes(pid: int) -> int:
    """What a server and its children have in memory."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in tree([pid])]
    return sum(pages) * 4096


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
