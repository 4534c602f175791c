"""The targets of our streaming server, and whether it meets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks import ratio
from benchmarks.stream.pace import LATE_FRACTION_MAX, P99_SECONDS_MAX, RATE, Pace
from benchmarks.stream.results import Table
from sojourn.loading.confidence import Estimate
from sojourn.text import format

COST_RATIO_MAX = 0.5
"""The most of our CPU time per stream over the best peer's."""
DISTURBED_FRACTION_MIN = 0.02
"""The fraction of the core's time; if others kept the server from it for longer, that may explain lateness."""


@dataclass(frozen=True)
class Verdict:
    """An aim and the result, in words."""

    aim: str
    bound: str
    measured: str
    word: str
    """met, not met, not decided or not measured."""

    @property
    def line(self) -> str:
        """Returns a line for a terminal."""
        return f"{self.aim}: {self.measured} ({self.bound}): {self.word}"


def of_costs(tables: Iterable[Table]) -> list[Verdict]:
    """Judges whether ours costs at most half as much as the best peer."""
    found = []
    for table in tables:
        peer = table.best_peer
        against = "the best peer" if peer is None else f"{peer.competitor}, the best peer"
        aim = f"CPU per stream, {table.rate}, {table.transport}, {table.clients} streams ÷ {against}"
        measured = table.ours_over(peer)
        found.append(Verdict(aim, f"≤ {COST_RATIO_MAX:g}", said(measured), ratio.word(measured, COST_RATIO_MAX)))
    return found


def of_pace(paces: Sequence[Pace]) -> list[Verdict]:
    """Judges whether ours sends this many streams in time.

    A repetition that is late while other programs disturbed it decides nothing.
    """
    shares = [pace.late_fraction for pace in paces if not pace.trouble and pace.late_fraction is not None]
    if not shares:
        return []
    blamed = [pace for pace in paces if _is_late(pace) and not _is_disturbed(pace)]
    late = [pace for pace in paces if _is_late(pace)]
    found = "met" if not late else "not met" if len(blamed) * 2 > len(shares) else "not decided"
    middle, least, most = (f"{100 * share:.2f}" for share in (median(shares), min(shares), max(shares)))
    aim = f"samples sent later than {format.seconds(P99_SECONDS_MAX)}, {paces[0].streams:,} streams of {RATE} by UDP"
    return [Verdict(aim, f"≤ {100 * LATE_FRACTION_MAX:g} %", f"{middle} % [{least}–{most}]", found)]


def _is_late(pace: Pace) -> bool:
    return pace.late_fraction is not None and pace.late_fraction > LATE_FRACTION_MAX


def _is_disturbed(pace: Pace) -> bool:
    return (pace.core_wait_fraction or 0.0) + (pace.core_steal_fraction or 0.0) > DISTURBED_FRACTION_MIN


def said(estimate: Estimate | None) -> str:
    """Returns a ratio with its interval."""
    if estimate is None:
        return format.NOT_MEASURED
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}–{estimate.high:.2f}]"
