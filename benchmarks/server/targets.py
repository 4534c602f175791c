"""The targets of our servers, and whether they meet them: a ratio of costs, or a cost, and its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.ratio import word
from benchmarks.server.conditions import ARENA, CONDITIONS, SECURE, Condition
from benchmarks.server.results import Row, Table, ratio, ratio_of_medians
from benchmarks.server.start import Start
from sojourn.loading.confidence import Estimate

IDLE_BYTES_MAX = 512.0


@dataclass(frozen=True)
class Target:
    """A bound on the `figure` of a condition's table."""

    condition: str
    of: str
    against: str
    bound: float
    figure: Callable[[Tables, str], Estimate | None]
    unit: str = ""


class Tables:
    """The tables of a run by condition, and which architecture is the default."""

    def __init__(self, tables: Sequence[Table], default: str) -> None:
        self._tables = {table.condition.name: table for table in tables}
        self.default = default

    def __getitem__(self, condition: str) -> Table | None:
        return self._tables.get(condition)

    def ours(self, condition: str) -> Row | None:
        """Returns the row of the default architecture."""
        table = self[condition]
        row = table.row(self.default) if table else None
        return None if row is None or not row.is_sound else row


def against_nginx(tables: Tables, condition: str) -> Estimate | None:
    """Returns the default architecture's cost over the reference's."""
    table = tables[condition]
    return ratio(tables.ours(condition), table.reference) if table else None


def against_best_peer(tables: Tables, condition: str) -> Estimate | None:
    """Returns the default architecture's cost over the cheapest peer's."""
    table = tables[condition]
    return ratio(tables.ours(condition), table.best("peer")) if table else None


def _against_h2o(tables: Tables, condition: str) -> Estimate | None:
    table = tables[condition]
    h2o = table.row("h2o") if table else None
    return None if h2o is None or not h2o.is_sound else ratio(tables.ours(condition), h2o)


def _against_null(tables: Tables, condition: str) -> Estimate | None:
    table = tables[condition]
    return ratio(tables.ours(condition), table.best("null")) if table else None


def _best_against_nginx(tables: Tables, condition: str) -> Estimate | None:
    table = tables[condition]
    return ratio(table.best("ours"), table.reference) if table else None


def _bytes(tables: Tables, condition: str) -> Estimate | None:
    row = tables.ours(condition)
    return Estimate(row.cost.median) if row and row.cost else None


def _start_milliseconds(tables: Tables, condition: str) -> Estimate | None:
    return _started(tables, condition, lambda start: start.seconds * 1e3)


def _start_megabytes(tables: Tables, condition: str) -> Estimate | None:
    return _started(tables, condition, lambda start: start.proportional_bytes / 1e6)


def _program_megabytes(tables: Tables, condition: str) -> Estimate | None:
    return _started(tables, condition, lambda start: start.program_bytes / 1e6)


def _started(tables: Tables, condition: str, figure: Callable[[Start], float]) -> Estimate | None:
    row = tables.ours(condition)
    spread = row.spread(lambda cell: figure(cell.start) if cell.start else None) if row else None
    return Estimate(spread.median) if spread else None


def _with_log(tables: Tables, condition: str) -> Estimate | None:
    return ratio_of_medians(tables.ours(condition), tables.ours("keep-alive-500B"))


TARGETS: Sequence[Target] = (
    Target("keep-alive-500B", "default", "nginx", 0.80, against_nginx),
    Target("keep-alive-500B", "default", "best peer", 0.92, against_best_peer),
    Target("keep-alive-500B", "default", "null", 1.12, _against_null),
    Target("keep-alive-5KB", "default", "nginx", 0.80, against_nginx),
    Target("keep-alive-5KB", "default", "best peer", 1.00, against_best_peer),
    Target("keep-alive-5KB", "default", "null", 1.15, _against_null),
    Target("keep-alive-50KB", "default", "nginx", 0.80, against_nginx),
    Target("keep-alive-50KB", "default", "best peer", 0.80, against_best_peer),
    Target("keep-alive-500KB", "default", "nginx", 0.85, against_nginx),
    Target("keep-alive-5MB", "default", "nginx", 1.00, against_nginx),
    Target("close-500B", "best architecture", "nginx", 0.85, _best_against_nginx),
    Target("clients-5000", "default", "nginx", 0.75, against_nginx),
    *(Target(arena.name, "default", "nginx", 0.50, against_nginx) for arena in ARENA),
    *(Target(arena.name, "default", "null", 1.15, _against_null) for arena in ARENA),
    *(
        Target(secure.name, "default", "best peer", 0.70, against_best_peer)
        if secure.protocol == "https"
        else Target(secure.name, "default", "h2o", 0.90, _against_h2o)
        for secure in SECURE
    ),
    Target("idle", "default", "user memory per connection", IDLE_BYTES_MAX, _bytes, "B"),
    Target("start", "default", "time", 20, _start_milliseconds, "ms"),
    Target("start", "default", "memory then", 6, _start_megabytes, "MB"),
    Target("start", "default", "program", 12, _program_megabytes, "MB"),
    Target("access-log", "default", "the same without a log", 1.10, _with_log),
)


@dataclass(frozen=True)
class Verdict:
    """A target and the measured figure; `estimate` is None if there is none without errors."""

    target: Target
    condition: Condition
    estimate: Estimate | None

    @property
    def measured(self) -> float | None:
        """Returns the figure without its interval."""
        return self.estimate.value if self.estimate else None

    @property
    def word(self) -> str:
        """Returns `met`, `not met`, `not measured`, or `not decided` if the bound is in the interval."""
        if self.estimate is None:
            return "not measured"
        if self.estimate.low is not None:
            return word(self.estimate, self.target.bound)
        return "met" if self.estimate.value <= self.target.bound else "not met"

    @property
    def line(self) -> str:
        """Returns a line for a terminal."""
        target = self.target
        measured = "      –" if self.measured is None else f"{self.measured:7.2f}"
        return f"{target.condition:16} {target.against:27} {measured} <= {target.bound:<5g} {self.word}"


def judge(
    tables: Tables, targets: Sequence[Target] = TARGETS, conditions: Sequence[Condition] = CONDITIONS
) -> list[Verdict]:
    """Compares the tables with every target."""
    by_name = {condition.name: condition for condition in conditions}
    return [Verdict(target, by_name[target.condition], target.figure(tables, target.condition)) for target in targets]
