"""The tables and the page: the best of all rounds, as in STREAM, and whether the programs agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from benchmarks.markdown import table_of
from benchmarks.memory.tools import MEBIBYTE, STREAM_BYTES_MAX
from benchmarks.run import circumstances
from sojourn.text import format

DISAGREEMENT_MAX = 0.10
STREAM_COMPARED_BYTES_MIN = 16 * MEBIBYTE
"""Between two copies STREAM runs three other loops over three arrays, which evict smaller ones from the L2 cache."""
OURS = "sojourn"
SAME: Sequence[tuple[str, str, str]] = (
    ("copy-block", "mbw", "MCBLOCK"),
    ("copy-block", "STREAM", "Copy"),
)
"""Our kernel, and the peer's with the same instructions: all three call the C library's copy."""
ALIKE = ("copy-strided-load", "mbw", "words")
"""Both copy word by word, with instructions of each compiler's choice."""


@dataclass(frozen=True)
class Figure:
    """The figures that one run of a program reported."""

    tool: str
    array_bytes: int
    rates: dict[str, list[float]]
    """Bytes per second by operation; a copied byte counts once."""
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return asdict(self)


@dataclass(frozen=True)
class Rate:
    """Bytes per second: the best of all rounds, which disturbances affect least, and the median of rounds' bests."""

    best: float
    middle: float


@dataclass(frozen=True)
class Verdict:
    """Our figure and a peer's; None if one of them is missing."""

    what: str
    ratio: float | None

    @property
    def word(self) -> str:
        """Returns `met`, `not met` or `not measured`."""
        if self.ratio is None:
            return "not measured"
        return "met" if abs(self.ratio - 1) <= DISAGREEMENT_MAX else "not met"

    def line(self) -> str:
        """Returns a line for a terminal."""
        return f"{self.what:60} {_number(self.ratio):>6} {self.word}"


def judge(figures: Iterable[Figure]) -> list[Verdict]:
    """Compares the figures with every target, for every size."""
    kept = list(figures)
    return [
        Verdict(f"{format.size(size)}: {ours} ÷ {tool}'s {theirs}", _ratio(kept, size, (ours, tool, theirs)))
        for size in _sizes(kept)
        for ours, tool, theirs in SAME
        if tool != "STREAM" or STREAM_COMPARED_BYTES_MIN <= size <= STREAM_BYTES_MAX
    ]


def page(run: dict[str, Any], figures: Sequence[Figure], *, complete: bool) -> str:
    """Returns the page of a run."""
    troubles = dict.fromkeys(f"- {each.tool}: {each.trouble}" for each in figures if each.trouble)
    targets = [[each.what, "0.90–1.10", _number(each.ratio), each.word] for each in judge(figures)]
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run, complete=complete),
        core=run["core"],
        targets=table_of(["array, ours ÷ peer's", "bound", "measured", ""], targets),
        rates=_rates(figures) + ("\n\n" + "\n".join(troubles) if troubles else ""),
        alike=", ".join(f"{format.size(size)}: {_number(_ratio(figures, size, ALIKE))}" for size in _sizes(figures)),
    )


def _rates(figures: Sequence[Figure]) -> str:
    names = list(dict.fromkeys((each.tool, name) for each in figures for name in each.rates))
    names.sort(key=lambda pair: (pair[0] != OURS, pair))
    rows = [
        [f"{tool} {name}", *(_gigabytes(_rate(figures, size, tool, name)) for size in _sizes(figures))]
        for tool, name in names
    ]
    return table_of(["GB/s, best (median)", *(format.size(size) for size in _sizes(figures))], rows)


def _sizes(figures: Iterable[Figure]) -> list[int]:
    return sorted({each.array_bytes for each in figures})


def _rate(figures: Iterable[Figure], size: int, tool: str, name: str) -> Rate | None:
    bests = [
        max(each.rates[name])
        for each in figures
        if (each.tool, each.array_bytes) == (tool, size) and each.rates.get(name)
    ]
    return Rate(max(bests), median(bests)) if bests else None


def _ratio(figures: Iterable[Figure], size: int, pair: tuple[str, str, str]) -> float | None:
    kept = list(figures)
    kernel, tool, theirs = pair
    ours, peer = _rate(kept, size, OURS, kernel), _rate(kept, size, tool, theirs)
    return ours.best / peer.best if ours and peer else None


def _gigabytes(rate: Rate | None) -> str:
    return format.NOT_MEASURED if rate is None else f"{rate.best / 1e9:.2f} ({rate.middle / 1e9:.2f})"


def _number(value: float | None) -> str:
    return format.NOT_MEASURED if value is None else f"{value:.2f}"
