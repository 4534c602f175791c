"""The page: how many findings hold, the errors of models, and every finding with its figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.markdown import machine_rows, table_of
from sojourn.report.study.index import HELD_OUT_HEAD, HELD_OUT_NOTE, Assessed, remarks
from sojourn.study.decisions import FINDINGS
from sojourn.study.finding_counts import by_evidence, counted
from sojourn.study.folder import ENVIRONMENTS, POINTS
from sojourn.study.sources import by_source, citation
from sojourn.text import format

EVIDENCE_NOTE = (
    "*Measured*: a server, a disk or memory was. *Simulated*: by Sojourn's simulator, or the processor's caches by "
    "valgrind. *Arithmetic* and *identities of the model* come out the same each time: they show what the source's own "
    "numbers and formulas give, and nothing about a machine."
)
Found = tuple[Path, Any]
"""A study's folder and its summary."""


def page(found: Sequence[Found], assessed: Sequence[Assessed], command: str, revision: str) -> str:
    """Returns the page of all studies that were run."""
    sources = by_source(found, lambda each: each[1]["source"])
    template = Template(Path(__file__).with_name("page.md.template").read_text())
    return template.substitute(
        when=_when([path for path, _ in found]),
        revision=revision,
        command=command,
        counts=_counts({name: [each for _, each in placed] for name, placed in sources.items()}),
        held_out=_held_out(assessed),
        findings="\n\n".join(
            f"### {name}\n\n{_cited(name)}" + "\n\n".join(_study(place, summary) for place, (_, summary) in placed)
            for name, placed in sources.items()
        ),
        machine=table_of(["", ""], _machine([path for path, _ in found])),
    )


def _when(folders: Iterable[Path]) -> str:
    """Returns the dates of the first and the last point."""
    times = [point.stat().st_mtime for folder in folders for point in folder.glob(f"{POINTS}/*.json")]
    if not times:
        return "nothing was measured"
    first, last = (datetime.fromtimestamp(each(times), UTC) for each in (min, max))
    took = format.duration((last - first).total_seconds())
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC ({took})"


def _counts(sources: dict[str, list[Found]]) -> str:
    rows = [[name, *_counted(found)] for name, found in sources.items()]
    whole = [each for found in sources.values() for each in found]
    verdicts = [(each["finding"], each.get("evidence")) for _, summary in whole for each in summary["verdicts"]]
    apart = [[kind, *(f"{each:,}" for each in counts)] for kind, counts in by_evidence(verdicts)]
    return "\n\n".join(
        [
            f"Of {len(verdicts):,} findings: {'; '.join(counted(verdicts))}.",
            table_of(["source", "studies", "points", "findings", *FINDINGS], [*rows, ["all", *_counted(whole)]]),
            table_of(["what they rest on", "findings", *FINDINGS], apart),
            EVIDENCE_NOTE,
        ]
    )


def _counted(found: Sequence[Found]) -> list[str]:
    findings = [verdict["finding"] for _, summary in found for verdict in summary["verdicts"]]
    points = sum(summary["points"] + summary.get("points_repeated", 0) for _, summary in found)
    return [f"{each:,}" for each in (len(found), points, len(findings), *map(findings.count, FINDINGS))]


def _held_out(assessed: Sequence[Assessed]) -> str:
    if not assessed:
        return "No assessment was beside these studies: `sojourn assess LOG` makes one."
    rows = [
        [each.folder.name, each.log or "", each.server or "", each.steps, *each.errors, each.lacks] for each in assessed
    ]
    return f"{table_of(HELD_OUT_HEAD, map(_cells, rows), 'l' * len(HELD_OUT_HEAD))}\n\n{HELD_OUT_NOTE}"


def _study(place: str, summary: Any) -> str:
    rows = [
        _cells([each["says"], each["finding"], each.get("evidence") or "", _figures(each)])
        for each in summary["verdicts"]
    ]
    said = f"#### {summary['title']} ({place})\n\n`{summary['study']}`, {summary['points']:,} points"
    if repeated := summary.get("points_repeated"):
        said += f" and {repeated:,} to decide what was open"
    if without := remarks(summary):
        said += f"; {without}"
    return (
        f"{said}\n\n{table_of(['finding', 'here', 'rests on', 'figures'], rows, 'llll')}"
        if rows
        else f"{said}; no findings"
    )


def _figures(verdict: Any) -> str:
    """Returns a finding's figures, with what explains it or would decide it."""
    notes = [*verdict["because"], *filter(None, [verdict.get("to_decide")])]
    return "; ".join([f"{verdict['metric']}: {verdict['why']}", *notes])


def _cited(name: str) -> str:
    full = citation(name)
    return "" if full is None else f"{full}.\n\n"


def _cells(texts: Iterable[str]) -> list[str]:
    return [each.replace("|", "\\|").replace("\n", " ") for each in texts]


def _machine(folders: Iterable[Path]) -> list[list[str]]:
    """Returns the machine of the first session; the studies' own pages show where it differed."""
    seen = next((each for folder in folders for each in json.loads((folder / ENVIRONMENTS).read_text())), {})
    return machine_rows(seen)
