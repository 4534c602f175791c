"""The page: targets, a table per condition, the memory of idle connections. Its text is in page.md.template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.markdown import machine_rows, table_of, warnings
from benchmarks.server.competitors import Kind
from benchmarks.server.results import Row, Spread, Table, ratio
from benchmarks.server.targets import Tables, Verdict, judge
from sojourn.loading.confidence import Estimate
from sojourn.text import format

LIMITED = "†"
TROUBLE = "✗"
DISTURBED = "‡"
STOLEN_FRACTION_WORTH_A_WORD = 0.02
KINDS: dict[Kind, str] = {"ours": "Sojourn", "peer": "", "null": "limit"}
_MICROSECONDS = 1e6
_OWN_NETWORK = (
    "{} has a network namespace of its own with only a loopback, so that no connection of an earlier one\n"
    "  waits in it."
)
_SYSTEM_NETWORK = "All cells share the system's network, in which connections of earlier ones may still wait."
_REPEATED = """$repetitions repetitions, each of all cells in an order drawn from seed $seed. In each cell everything is
  started afresh, one response is compared with the document by status, size and hash, and then $duration are measured
  after a warm-up of at least $warm_up."""
_IN_TURN = """All servers of a condition run, and one response of each is compared with the document by status, size and
  hash. Then each is loaded in each of $repetitions rounds, in an order drawn from seed $seed: $duration are measured
  after a warm-up of at least $warm_up. A server that uses the core while it is idle cannot take part."""
_RATIOS_IN_TURN = """
Servers were measured in turn, because the machine's speed changes. So a ratio is the median of the ratios within each
round, with its interval at 95 % in brackets and the number of rounds. Rounds in which a server failed (✗) are left out;
it is compared if it did not in most.
"""


def page(run: dict[str, Any], measured: Sequence[Table], tables: Tables, images: Sequence[tuple[str, str]]) -> str:
    """Returns the page of a run; `images` are titles and file names."""
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run),
        targets=targets(judge(tables), tables.default),
        images="\n\n".join(f"![{title}]({name})" for title, name in images),
        loaded="\n\n".join(loaded(table) for table in measured if table.condition.is_load),
        idle="\n\n".join(_idle(table) for table in measured if table.condition.idle),
        start="\n\n".join(_start(table) for table in measured if table.condition.is_start),
        notes=notes_section(measured),
    )


def circumstances(run: dict[str, Any]) -> dict[str, object]:
    """Returns what a page says about how, where and when it was measured."""
    return {
        "date": run["date"],
        "took": format.duration(run["seconds"]),
        "command": run["command"],
        "warnings": warnings(run, complete=run["complete"]),
        "machine": _machine(run),
        "server_core": run["cores"]["server"],
        "generator_core": run["cores"]["generator"],
        "network": _network(run),
        **_way(run),
        "congestion_control": run["congestion_control"],
    }


def _network(run: dict[str, Any]) -> str:
    what = "Each condition" if run.get("in_turn") else "Each cell"
    return _OWN_NETWORK.format(what) if run["own_network"] else _SYSTEM_NETWORK


def _way(run: dict[str, Any]) -> dict[str, str]:
    """Returns how cells and ratios were measured: each by itself, or in turn."""
    in_turn = run.get("in_turn")
    moments = {name: format.seconds(run[f"{name}_seconds"]) for name in ("duration", "warm_up")}
    way = Template(_IN_TURN if in_turn else _REPEATED)
    return {
        "repeated": way.substitute(moments, repetitions=run["repetitions"], seed=run["seed"]),
        "ratios": _RATIOS_IN_TURN if in_turn else "",
    }


def notes(measured: Iterable[Table]) -> list[str]:
    """Returns the notes that explain marked figures."""
    return [
        f"{sign} {row.competitor}, {table.condition.title}: {why}"
        for table in measured
        for row in table.rows
        for sign, why in _doubts(row)
    ]


def _doubts(row: Row) -> Iterator[tuple[str, str]]:
    if row.trouble:
        yield TROUBLE, row.trouble
    if row.limited_because:
        yield LIMITED, row.limited_because
    if row.stolen_fraction > STOLEN_FRACTION_WORTH_A_WORD:
        yield DISTURBED, f"the hypervisor took up to {format.percent(row.stolen_fraction)} of the server's core"


def cheapest_first(rows: Iterable[Row]) -> list[Row]:
    """Sorts the rows, cheapest first; those without a figure come last."""
    return sorted(rows, key=lambda row: row.cost.median if row.cost else float("inf"))


def mark(row: Row) -> str:
    """Returns the mark after a competitor's name if its figures need a note."""
    return "".join(f" {sign}" for sign, _ in _doubts(row))


def ratio_of(row: Row, other: Row | None) -> str:
    """Returns a ratio of costs, in turn with its interval and the number of rounds; empty for the reference itself."""
    found = ratio(row, other)
    if found is None or row is other:
        return format.NOT_MEASURED
    return f"{with_interval(found)}, {found.batches}" if found.batches else f"{found.value:.2f}"


def with_interval(estimate: Estimate) -> str:
    """Returns a ratio with its interval, if it has one."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}–{estimate.high:.3f}]"


def cost_of(row: Row, *, idle: bool) -> str:
    """Returns the compared figure: bytes per idle connection, or microseconds per request with their spread."""
    if row.cost is None:
        return format.NOT_MEASURED
    if idle:
        return f"{row.cost.median:,.0f} B"
    middle, low, high = (f"{value * _MICROSECONDS:,.2f}" for value in (row.cost.median, row.cost.low, row.cost.high))
    return f"{middle} [{low}–{high}]"


def median_of(spread: Spread | None) -> float | None:
    """Returns a figure's median, if it was measured."""
    return spread.median if spread else None


def targets(verdicts: Iterable[Verdict], default: str) -> str:
    """Returns a table of targets and whether they are met, for the architecture `default`."""
    rows = []
    for verdict in verdicts:
        target = verdict.target
        who = f"`{default}`" if target.of == "default" else target.of
        unit, digits = (f" {target.unit}", 0) if target.unit else ("", 2)
        measured = format.NOT_MEASURED
        if verdict.estimate is not None:
            figure = verdict.estimate
            measured = f"{figure.value:,.{digits}f}{unit}" if figure.low is None else with_interval(figure)
        word = f"**{verdict.word}**" if verdict.word == "not met" else verdict.word
        rows.append(
            [verdict.condition.title, who, target.against, f"≤ {target.bound:.{digits}f}{unit}", measured, word]
        )
    return table_of(["condition", "of", "against", "target", "measured", ""], rows, "lllrrl")


def loaded(table: Table) -> str:
    """Returns the table of a condition under load."""
    header = [
        "server",
        "",
        "CPU µs/request",
        "user",
        "requests/s",
        "median response",
        "÷ nginx",
        "÷ best peer",
        "÷ null",
    ]
    others = (table.reference, table.best("peer"), table.best("null"))
    rows = [
        [
            f"{row.competitor}{mark(row)}",
            KINDS[row.kind],
            cost_of(row, idle=False),
            format.percent(median_of(row.spread(lambda cell: cell.cpu_user_fraction))),
            format.number(median_of(row.spread(lambda cell: cell.requests_per_second))),
            format.seconds(median_of(row.spread(lambda cell: cell.response_time_p50_seconds))),
            *(ratio_of(row, other) for other in others),
        ]
        for row in cheapest_first(table.rows)
    ]
    return f"### {table.condition.title}\n\n" + table_of(header, rows, "llrrrrrrr")


def _idle(table: Table) -> str:
    header = ["server", "", "processes", "growth per connection (PSS)", "(RSS)", "footprint before (PSS)", "÷ nginx"]
    rows = []
    for row in cheapest_first(table.rows):
        processes = row.spread(lambda cell: cell.memory.processes if cell.memory else None)
        resident = row.spread(lambda cell: cell.memory.resident_bytes_per_connection if cell.memory else None)
        before = row.spread(lambda cell: cell.memory.proportional_bytes_before if cell.memory else None)
        rows.append(
            [
                f"{row.competitor}{mark(row)}",
                KINDS[row.kind],
                format.count(median_of(processes)),
                cost_of(row, idle=True),
                format.NOT_MEASURED if resident is None else f"{resident.median:,.0f} B",
                format.size(median_of(before)),
                ratio_of(row, table.reference),
            ]
        )
    return (
        f"## Memory of {table.condition.title}\n\n"
        "User memory of all the server's processes, beyond what it had before; each connection has asked once and\n"
        "waits. What the kernel keeps per socket is the same for all and is not in it. A server that sets its\n"
        "connections' memory aside when it starts has it in its footprint.\n\n" + table_of(header, rows, "llrrrrr")
    )


def _start(table: Table) -> str:
    header = ["server", "", "to the first answer", "memory then (PSS)", "program", "÷ nginx"]
    rows = []
    for row in cheapest_first(table.rows):
        memory = row.spread(lambda cell: cell.start.proportional_bytes if cell.start else None)
        program = row.spread(lambda cell: cell.start.program_bytes if cell.start else None)
        rows.append(
            [
                f"{row.competitor}{mark(row)}",
                KINDS[row.kind],
                format.seconds(median_of(row.cost)),
                format.size(median_of(memory)),
                format.size(median_of(program)),
                ratio_of(row, table.reference),
            ]
        )
    return (
        "## Start\n\n"
        "From starting the process to the first answer; the command that pins a server to its core is in it.\n"
        "Each cell is the median of several starts. The program is its file, without the libraries and modules\n"
        "that it loads.\n\n" + table_of(header, rows, "llrrrr")
    )


def notes_section(measured: Iterable[Table]) -> str:
    """Returns the section of notes, if there are any."""
    found = notes(measured)
    return "## Notes\n\n" + "\n".join(f"- {note}" for note in found) if found else ""


def _machine(run: dict[str, Any]) -> str:
    """Returns the machine as a table, with the revision and the servers' versions."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return table_of(
        ["", ""], [["revision", run["revision"]], *machine_rows(run["environment"]), ["servers", versions]], "ll"
    )
