"""The page: every answer with its kind of disturbance, and whether it is reliable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from benchmarks.assessment.burner import KINDS, PAIRED, QUIET
from benchmarks.assessment.subjects import EXAMPLE, SUBJECTS
from benchmarks.markdown import table_of
from benchmarks.run import circumstances
from sojourn.assessment.held_out import AIMS
from sojourn.assessment.plausibility import LIMIT_OVER_HIGHEST_MAX
from sojourn.text import format

ORDER = [kind.name for kind in KINDS]
AGREE_FRACTION = 0.15
"""A definite answer beside other work must be within this fraction of the quiet one."""
PAIR_FRACTION = 0.10
"""Two runs in a row agree if they are within this fraction, or if their intervals overlap."""


@dataclass(frozen=True)
class Run:
    """The answer of one assessment; rates are in requests/s."""

    subject: str
    kind: str
    repetition: int
    rate: float | None
    """None without an answer."""
    low: float | None
    high: float | None
    is_lower_bound: bool
    bottleneck: str | None
    because: str
    highest_measured: float
    held_out_throughput: float | None
    """The largest absolute relative error over the steps that were not used to fit the model."""
    held_out_mean: float | None
    held_out_p95: float | None
    held_out_known_to: list[float]
    """Half the width of each of these errors' 95 % interval."""
    withheld: list[str]

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """A target and the result."""

    what: str
    found: str
    word: str

    def line(self) -> str:
        """Returns a line for a terminal."""
        return f"{self.what:70} {self.found:>20} {self.word}"


def judge(runs: Sequence[Run]) -> list[Verdict]:
    """Compares the runs with every target."""
    return [
        _absurd(runs),
        *(_agrees(kind.name, runs) for kind in KINDS if kind != QUIET),
        *_pairs(runs),
        *_aims(runs),
    ]


def page(run: dict[str, Any], runs: Sequence[Run], *, complete: bool) -> str:
    """Returns the page of a run."""
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        circumstances(run, complete=complete),
        quiet_repetitions=run["quiet_repetitions"],
        efforts=f"--effort {run['efforts'][QUIET.name]}",
        beside_efforts=f"--effort {run['efforts'][KINDS[-1].name]}",
        targets=table_of(["target", "found", ""], [[each.what, each.found, each.word] for each in judge(runs)], "llr"),
        errors=table_of(["", "runs", *(f"{aim.name}, at most {aim.fraction:.0%}" for aim in AIMS)], _errors(runs)),
        answers=table_of(
            ["what", "beside", "answer, requests/s", "interval", "bottleneck", "held out: throughput, mean, p95"],
            [_row(each) for each in sorted(runs, key=_place)],
            "llrrlr",
        ),
    )


def is_absurd(run: Run) -> bool:
    """Returns true if the answer contradicts the run's own measurements."""
    if run.rate is None:
        return False
    ordered = (run.low or 0.0) <= run.rate and (run.high is None or run.rate <= run.high)
    return not ordered or run.rate > LIMIT_OVER_HIGHEST_MAX * run.highest_measured


def _absurd(runs: Sequence[Run]) -> Verdict:
    found = [each for each in runs if is_absurd(each)]
    return Verdict("no absurd answer", f"{len(found)} of {len(runs)}", _word(runs, not found))


def _agrees(kind: str, runs: Sequence[Run]) -> Verdict:
    what = f"beside {kind}: definite answers within {format.percent(AGREE_FRACTION)} of the quiet one, bounds around it"
    quiet = [each.rate for each in _example(runs) if each.rate is not None]
    of_kind = [each for each in runs if each.kind == kind]
    definite = [each.rate for each in of_kind if each.rate is not None and not each.is_lower_bound]
    # A lower bound may lie anywhere below the rate, but not above it, and its interval's end not below.
    bounds = [each for each in of_kind if each.rate is not None and each.is_lower_bound]
    if not quiet or not of_kind:
        return Verdict(what, format.NOT_MEASURED, "not measured")
    near = all(abs(rate / median(quiet) - 1) <= AGREE_FRACTION for rate in definite)
    below = all((each.rate or 0.0) <= (1 + AGREE_FRACTION) * median(quiet) for each in bounds)
    ended = [each.high for each in bounds if each.high is not None]
    above = all(high >= (1 - AGREE_FRACTION) * median(quiet) for high in ended)
    found = (
        f"{len(definite)} definite, {len(bounds)} bounds ({len(ended)} with an upper end), "
        f"{len(of_kind) - len(definite) - len(bounds)} none"
    )
    return Verdict(what, found, _word(of_kind, near and below and above))


def _pairs(runs: Sequence[Run]) -> list[Verdict]:
    beside = {each.repetition: each for each in runs if each.kind == PAIRED.name}
    firsts = [number for number in beside if number % 2 == 0 and number + 1 in beside]
    pairs = [(beside[number], beside[number + 1]) for number in firsts]
    agree = sum(agrees(one, two) for one, two in pairs)
    what = f"two runs in a row beside {PAIRED.name}: within {format.percent(PAIR_FRACTION)}, or their intervals overlap"
    return [Verdict(what, f"{agree} of {len(pairs)}", _word(pairs, agree == len(pairs)))]


def agrees(one: Run, two: Run) -> bool:
    """Returns true if two answers are near or their intervals overlap. A bound's interval ends at its rate."""
    if one.rate is None or two.rate is None or one.low is None or two.low is None:
        return False
    if max(one.rate, two.rate) <= (1 + PAIR_FRACTION) * min(one.rate, two.rate):
        return True
    return one.low <= (two.high or two.rate) and two.low <= (one.high or one.rate)


def _aims(runs: Sequence[Run]) -> list[Verdict]:
    """Returns for each subject and aim whether the median of its runs meets it."""
    found = []
    for subject in SUBJECTS:
        for aim, errors in zip(AIMS, _errors_of(subject.name, runs), strict=True):
            what = f"{subject.name}: held-out error of the {aim.name}, at most {format.percent(aim.fraction)}"
            found.append(Verdict(what, _error(errors), _judged(errors, aim.fraction)))
    return found


def _judged(errors: Sequence[tuple[float, float]], aim: float) -> str:
    """Judges by the median; an error smaller than its own uncertainty is not decided."""
    if not errors:
        return "not measured"
    error, known_to = sorted(errors)[len(errors) // 2]
    if error <= aim and known_to <= aim:
        return "met"
    return "not met" if error - known_to > aim else f"not decided: known to ±{format.percent(known_to)}"


def _error(errors: Sequence[tuple[float, float]]) -> str:
    said = [error for error, _ in errors]
    if len(said) < 2:
        return format.percent(said[0]) if said else format.NOT_MEASURED
    return f"{format.percent(median(said))}, worst {format.percent(max(said))}"


def _errors(runs: Sequence[Run]) -> list[list[str]]:
    rows = []
    for subject in SUBJECTS:
        cells = map(_error, _errors_of(subject.name, runs))
        rows.append([subject.name, str(sum(each.subject == subject.name for each in _quiet(runs))), *cells])
    return rows


def _errors_of(subject: str, runs: Sequence[Run]) -> list[list[tuple[float, float]]]:
    """Returns for each aim the known errors and their half-widths."""
    of = [each for each in _quiet(runs) if each.subject == subject]
    figures = [
        zip((each.held_out_throughput, each.held_out_mean, each.held_out_p95), each.held_out_known_to, strict=True)
        for each in of
    ]
    return [
        [(error, known_to) for error, known_to in of_aim if error is not None]
        for of_aim in (zip(*figures, strict=True) if figures else [[] for _ in AIMS])
    ]


def _quiet(runs: Sequence[Run]) -> list[Run]:
    return [each for each in runs if each.kind == QUIET.name]


def _example(runs: Sequence[Run]) -> list[Run]:
    return [each for each in _quiet(runs) if each.subject == EXAMPLE.name]


def _place(run: Run) -> tuple[int, int, int]:
    names = [subject.name for subject in SUBJECTS]
    return ORDER.index(run.kind), names.index(run.subject), run.repetition


def _row(run: Run) -> list[str]:
    bound = "at least " if run.is_lower_bound else ""
    high = "" if run.high is None else format.number(run.high)
    interval = f"{format.number(run.low)} – {high}" if run.rate is not None else ""
    errors = (run.held_out_throughput, run.held_out_mean, run.held_out_p95)
    return [
        run.subject,
        run.kind,
        f"{bound}{format.number(run.rate)}" if run.rate is not None else "none",
        interval,
        run.bottleneck or f"unknown: {run.because}",
        ", ".join(map(format.percent, errors)),
    ]


def _word(measured: Sequence[object], met: bool) -> str:
    if not measured:
        return "not measured"
    return "met" if met else "not met"
