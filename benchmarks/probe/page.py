"""The tables and the page: medians, ratios to the server without a probe with their intervals, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, TypeVar

from benchmarks.markdown import table_of
from benchmarks.probe.cell import Agreement, Cell
from benchmarks.probe.ended import COUNT_MIN
from benchmarks.probe.variants import ALL, OFF, VARIANTS
from benchmarks.ratio import mean_ratio, word
from benchmarks.run import circumstances
from benchmarks.server.results import Spread
from sojourn.loading.confidence import Estimate
from sojourn.text import format

COST_MAX = 0.01
"""The most of the server's CPU time."""
OWN_COST_MAX = 0.02
"""The most of the core that the probe shares with the generator."""
DISAGREEMENT_MAX = 0.02
_MICROSECONDS = 1e6
Place = tuple[str, str]
"""A server and a load."""
T = TypeVar("T", Cell, Agreement)
_OURS: dict[str, Callable[[Agreement], float | None]] = {
    "cpu_seconds": lambda cell: cell.accounted_seconds_per_request,
    "perf_task_clock_seconds": lambda cell: cell.event_seconds_per_request,
}


@dataclass(frozen=True)
class Verdict:
    """A target and the measured figure; None if it was not measured."""

    what: str
    bound: float
    measured: Estimate | None
    both_sides: bool = False
    """True if a deviation below is as wrong as one above."""

    @property
    def word(self) -> str:
        """Returns whether the whole interval meets or misses the target; otherwise it is not decided."""
        return word(self.measured, 1 + self.bound, 1 - self.bound if self.both_sides else 0.0)

    def line(self) -> str:
        """Returns a line for a terminal."""
        return f"{self.what:60} {_percent(self.measured):26} {self.word}"


def judge(cells: Iterable[Cell | Agreement]) -> list[Verdict]:
    """Compares the cells with every target, for every server."""
    kept = list(cells)
    found = []
    for place in _places(kept, Cell):
        cost = _ratio_to_off(_at(kept, place, Cell), ALL.name)
        found.append(Verdict(f"{', '.join(place)}: CPU per request with the probe ÷ without", COST_MAX, cost))
        found.append(
            Verdict(f"{', '.join(place)}: the probe's own core", OWN_COST_MAX, _own_cost(_at(kept, place, Cell)))
        )
    for place in _places(kept, Agreement):
        for name, figure in _OURS.items():
            agreed = mean_ratio(_agreed(_at(kept, place, Agreement), figure))
            what = f"{', '.join(place)}: {name} ÷ perf stat"
            found.append(Verdict(what, DISAGREEMENT_MAX, agreed, both_sides=True))
    return found


def page(run: dict[str, Any], cells: Sequence[Cell | Agreement], *, complete: bool) -> str:
    """Returns the page of a run."""
    targets = [
        [each.what, f"{'±' if each.both_sides else '+'}{100 * each.bound:g} %", _percent(each.measured), each.word]
        for each in judge(cells)
    ]
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run, complete=complete),
        rate=format.number(run["rate"]),
        duration=format.seconds(run["duration_seconds"]),
        server_core=run["cores"]["server"],
        generator_core=run["cores"]["generator"],
        detailed_repetitions=min(run["detailed_repetitions"], run["repetitions"]),
        ended=format.number(COUNT_MIN),
        targets=table_of(["target", "bound", "measured", ""], targets),
        costs="\n\n".join(_cost_section(cells, place) for place in _places(cells, Cell)),
        agreements=_agreement_section(cells),
    )


def _cost_section(cells: Sequence[Cell | Agreement], place: Place) -> str:
    rows, notes = [], []
    here = _at(cells, place, Cell)
    for variant in VARIANTS:
        mine = [cell for cell in here if cell.variant == variant.name]
        if not mine:
            continue
        trouble = next((cell.trouble for cell in mine if cell.trouble), None)
        if trouble:
            notes.append(f"- † {variant.name}: {trouble}")
        rows.append(
            [
                variant.name + (" †" if trouble else ""),
                _spread(Spread.of(cell.cpu_seconds_per_request for cell in mine)),
                format.NOT_MEASURED if variant is OFF else _percent(_ratio_to_off(here, variant.name)),
                _share(Spread.of(cell.probe_cpu_fraction for cell in mine)),
            ]
        )
    header = ["observed by", "server's CPU µs/request", "against off", "the probe's own core"]
    said = "\n".join(dict.fromkeys(notes))
    return f"### {', '.join(place)}\n\n{table_of(header, rows)}" + (f"\n\n{said}" if said else "")


def _agreement_section(cells: Sequence[Cell | Agreement]) -> str:
    rows, notes = [], []
    for place in _places(cells, Agreement):
        mine = _at(cells, place, Agreement)
        trouble = next((cell.trouble for cell in mine if cell.trouble), None)
        if trouble:
            notes.append(f"- † {', '.join(place)}: {trouble}")
        rows.append(
            [
                ", ".join(place) + (" †" if trouble else ""),
                _spread(Spread.of(cell.perf_stat_seconds_per_request for cell in mine)),
                *(_spread(Spread.of(map(figure, mine))) for figure in _OURS.values()),
                _spread(Spread.of(_per_switch(cell) for cell in mine)),
            ]
        )
    header = ["server, load", "perf stat, µs/request", *(f"`{name}`" for name in _OURS), "excess, µs/switch"]
    said = "\n".join(notes)
    return table_of(header, rows) + (f"\n\n{said}" if said else "")


def _per_switch(cell: Agreement) -> float | None:
    """Returns what `cpu_seconds` counts beyond perf stat, per context switch."""
    accounted, counted, switches = (
        cell.accounted_seconds_per_request,
        cell.perf_stat_seconds_per_request,
        cell.switches_per_request,
    )
    return (accounted - counted) / switches if accounted and counted and switches else None


def _places(cells: Iterable[Cell | Agreement], kind: type[Cell] | type[Agreement]) -> list[Place]:
    return sorted({(cell.server, cell.load) for cell in cells if isinstance(cell, kind)})


def _at(cells: Iterable[Cell | Agreement], place: Place, kind: type[T]) -> list[T]:
    return [cell for cell in cells if isinstance(cell, kind) and (cell.server, cell.load) == place]


def _ratio_to_off(cells: list[Cell], variant: str) -> Estimate | None:
    """Returns the mean ratio within repetitions that measured both: the same server in the same minute."""
    of = {
        (cell.variant, cell.repetition): cell.cpu_seconds_per_request for cell in cells if cell.cpu_seconds_per_request
    }
    return mean_ratio(
        [
            seen / base
            for (name, repetition), seen in of.items()
            if name == variant and (base := of.get((OFF.name, repetition)))
        ]
    )


def _own_cost(cells: list[Cell]) -> Estimate | None:
    """Returns a core with the probe over one without: the probe shares this core with the generator."""
    mine = [cell.probe_cpu_fraction for cell in cells if cell.variant == ALL.name]
    return mean_ratio([1 + fraction for fraction in mine if fraction is not None])


def _agreed(cells: list[Agreement], figure: Callable[[Agreement], float | None]) -> list[float]:
    """Returns ours over perf stat's, over the repetitions that have both."""
    return [
        ours / cell.perf_stat_seconds_per_request
        for cell in cells
        if (ours := figure(cell)) and cell.perf_stat_seconds_per_request
    ]


def _percent(ratio: Estimate | None) -> str:
    if ratio is None:
        return format.NOT_MEASURED
    values = (ratio.value, ratio.low, ratio.high)
    middle, *ends = ["" if value is None else f"{100 * (value - 1):+.2f}".replace("-", "−") for value in values]
    return f"{middle} % [{'–'.join(ends)}]" if all(ends) else f"{middle} %"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return format.NOT_MEASURED
    return "{:.2f} [{:.2f}–{:.2f}]".format(*(each * _MICROSECONDS for each in (spread.median, spread.low, spread.high)))


def _share(spread: Spread | None) -> str:
    return format.NOT_MEASURED if spread is None else f"{100 * spread.median:.2f} %"
