"""The targets of the models, and whether a run met them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.models.answers import Answer
from benchmarks.models.record import Record
from sojourn.text import format

JOBS_PER_SECOND = 10e6
VISITS_PER_SECOND = 4e6
OF_THE_C_LOOP = 0.8


@dataclass(frozen=True)
class Verdict:
    """A target and the result."""

    name: str
    wanted: str
    measured: str
    met: bool

    @property
    def word(self) -> str:
        """Returns the word for the table."""
        return "met" if self.met else "**not met**"


def judge(record: Record, answers: Sequence[Answer]) -> list[Verdict]:
    """Returns the targets whose figures were measured."""
    verdicts = []
    for name, title, wanted in (
        ("thesis-4", "simulated jobs/s, M/G/1/LPS with r = 4, all statistics", JOBS_PER_SECOND),
        ("closed-thesis", "simulated station visits/s, the thesis's closed network", VISITS_PER_SECOND),
    ):
        cell = record.cell(name, "sojourn")
        if cell is not None:
            rate = cell.rate
            verdicts.append(Verdict(title, f"≥ {format.number(wanted)}", format.number(rate), rate >= wanted))
    for r in (1, 4, 16):
        ours, bare = record.cell(f"thesis-{r}", "sojourn"), record.cell(f"thesis-{r}", "c")
        if ours is not None and bare is not None:
            ratio = ours.rate / bare.rate
            title = f"speed as a share of the C loop's, r = {r}"
            verdicts.append(Verdict(title, f"≥ {OF_THE_C_LOOP}", f"{ratio:.2f}", ratio >= OF_THE_C_LOOP))
    for answer in answers:
        if answer.target is not None:
            said, bound = format.seconds(answer.seconds), f"< {format.seconds(answer.target)}"
            verdicts.append(Verdict(answer.name, bound, said, answer.seconds < answer.target))
    return verdicts
