"""The page: speed and accuracy per case, exact answers, targets, and the machine. Its text is in page.md.template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.markdown import table_of
from benchmarks.models.answers import Answer
from benchmarks.models.cases import Case
from benchmarks.models.competitors import Competitor
from benchmarks.models.record import Cell, Record
from benchmarks.models.targets import judge
from sojourn.report.assessment.measurement_tables import written
from sojourn.text import format

OURS = "sojourn"


def page(
    record: Record,
    cases: Sequence[Case],
    everybody: Sequence[Competitor],
    answers: Sequence[Answer],
    images: Sequence[tuple[str, str]],
) -> str:
    """Returns the page of a benchmark; `images` are titles and file names."""
    about = record.about
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        date=about["date"],
        command=about["command"],
        revision=about["revision"],
        repetitions=about["repetitions"],
        core=about["core"],
        incomplete="" if about["complete"] else "\n**Incomplete**: the run was interrupted; this is what it had.\n",
        targets=table_of(
            ["figure", "target", "measured", ""],
            [[each.name, each.wanted, each.measured, each.word] for each in judge(record, answers)],
            "lrrl",
        ),
        speed=_speed(record, cases, everybody),
        truth=_truth(record, cases, everybody),
        wrong=_wrong(record, cases, everybody),
        answers=table_of(
            ["", "median", "least to greatest"],
            [
                [each.name, format.seconds(each.seconds), f"{format.seconds(each.low)} – {format.seconds(each.high)}"]
                for each in answers
            ],
            "lrr",
        ),
        images="\n\n".join(f"![{title}]({name})" for title, name in images),
        machine=_machine(about["environment"]),
    )


def _speed(record: Record, cases: Sequence[Case], everybody: Sequence[Competitor]) -> str:
    shown = [each for each in everybody if each.jobs]
    rows = []
    for case in cases:
        ours = record.cell(case.name, OURS)
        cells = [record.cell(case.name, each.name) for each in shown]
        if any(cells):
            rows.append([case.title, *(_rate(cell, None if cell == ours else ours) for cell in cells)])
    return table_of(["case", *(each.title for each in shown)], rows, "l" + "r" * len(shown))


def _rate(cell: Cell | None, ours: Cell | None) -> str:
    if cell is None:
        return ""
    spread = (max(cell.rates) - min(cell.rates)) / cell.rate / 2
    beside = "" if ours is None else f", {format.number(ours.rate / cell.rate, 2)}×"
    return f"{format.number(cell.rate)} ±{format.percent(spread)}{beside}"


def _truth(record: Record, cases: Sequence[Case], everybody: Sequence[Competitor]) -> str:
    rows = []
    for case in cases:
        ours = record.cell(case.name, OURS)
        reference = case.exact_seconds or (ours.mean if ours else None)
        if reference is None:
            continue
        by = case.exact_by or "our simulation"
        cells = []
        for each in everybody:
            cell = record.cell(case.name, each.name)
            itself = case.exact_seconds is None and each.name == OURS
            cells.append("" if cell is None else _error(cell, reference, itself))
        rows.append([case.title, f"{format.seconds(reference)} ({by})", *cells])
    return table_of(
        ["case", "mean response time", *(each.title for each in everybody)], rows, "lr" + "r" * len(everybody)
    )


def _error(cell: Cell, reference: float, itself: bool) -> str:
    width = f"± {format.percent(cell.half_width / reference)}" if math.isfinite(cell.half_width) else "(one seed)"
    if itself:
        return f"reference {width}"
    error = f"{format.error(cell.mean / reference - 1)} {width}"
    return f"**{error} wrong**" if cell.is_wrong(reference) else error


def _wrong(record: Record, cases: Sequence[Case], everybody: Sequence[Competitor]) -> str:
    """Returns the error of each solver, and whether its answer is the one for first come, first served."""
    lines = []
    for each in everybody:
        cells = [(case, record.cell(case.name, each.name)) for case in cases if case.exact_seconds is not None]
        wrong = [
            (case, cell) for case, cell in cells if cell and case.exact_seconds and cell.is_wrong(case.exact_seconds)
        ]
        if wrong:
            fifo = all(case.fifo_seconds is not None and not cell.is_wrong(case.fifo_seconds) for case, cell in wrong)
            said = " Each time its answer is that of first come, first served." if fifo else ""
            lines.append(f"- **{each.title}**: {', '.join(case.title for case, _ in wrong)}.{said}")
    return "\n".join(lines) or "No program was wrong."


def _machine(environment: Mapping[str, Any]) -> str:
    shown = {
        "processor": environment["processor"],
        "cores": environment["cores_usable"],
        "caches": ", ".join(environment["caches"]),
        "memory": format.size(environment["memory_bytes"]),
        "kernel": environment["kernel"],
        "operating system": environment["operating_system"],
        "virtual machine": "yes" if environment["virtualised"] else "no",
        "frequency governor": written("frequency_governor", environment["frequency_governor"]),
        "Python": environment["python_version"],
        "Sojourn": environment["sojourn_version"],
    }
    return "\n".join(f"- {name}: {value}" for name, value in shown.items())
