"""Prints a study's verdicts, and the list of all studies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sojourn.study.comparison import Comparison
from sojourn.study.document import Study
from sojourn.study.findings import Findings
from sojourn.study.scale import whole_seconds
from sojourn.study.shares import Share
from sojourn.study.sources import by_source, citation
from sojourn.text import format

_STYLES = {"holds": "green", "does not hold": "bold red", "not decided": "yellow", "not enough points": "yellow"}
_PLACE_COLUMNS = 22
"""The width of the column with the place in the source."""


def print_findings(findings: Findings, console: Console) -> None:
    """Prints verdicts with their reasons, and gaps."""
    title = f"{findings.study.name}: {findings.study.title} ({findings.points:,} of {findings.planned:,} points)"
    console.print(Text(title, style="bold"), soft_wrap=True)
    if (source := citation(findings.study.source)) is not None:
        console.print(Text(f"{findings.study.source}: {source}", style="dim"), soft_wrap=True)
    for verdict in findings.verdicts:
        rests = Text(f" ({verdict.evidence})", style="dim")
        console.print(
            Text(f"{verdict}: ", style=_STYLES[verdict.finding]) + Text(verdict.says, style="bold") + rests,
            soft_wrap=True,
        )
        console.print(Text(f"  {verdict.metric}: {verdict.why}"), soft_wrap=True)
        for said in (*verdict.because, *filter(None, [verdict.to_decide])):
            console.print(Text(f"    {said}"), soft_wrap=True)
    for line in findings.lines:
        console.print(Text("line: ", style="dim") + Text(f"{line}"), soft_wrap=True)
    for name, because in findings.missing.items():
        console.print(Text(f"left out: {name}: {because}", style="yellow"), soft_wrap=True)
    for because, number in findings.failed.items():
        console.print(Text(f"failed: {number:,} points: {because}", style="yellow"), soft_wrap=True)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Prints the verdicts of two runs of a study, and the ratios of their figures."""
    agreed = sum(each.first == each.second for each in comparison.verdicts)
    title = f"{comparison.study}: {agreed} of {len(comparison.verdicts)} verdicts are the same"
    console.print(Text(title, style="bold"), soft_wrap=True)
    for pair in comparison.verdicts:
        said = pair.first if pair.first == pair.second else f"{pair.first}, then {pair.second}"
        console.print(Text(f"  {said}: ", style=_STYLES[pair.second]) + Text(pair.says), soft_wrap=True)
    for apart in comparison.figures:
        ratio = f"{apart.ratio:.3g} ({apart.least:.3g} to {apart.most:.3g} over {apart.cells} cells)"
        console.print(Text(f"  {apart.metric}, second over first: {ratio}"), soft_wrap=True)
    for name, (first, second) in comparison.differs.items():
        console.print(Text(f"  {name.replace('_', ' ')}: {first}, then {second}", style="dim"), soft_wrap=True)


def print_shares(shared: Sequence[Share], console: Console) -> None:
    """Prints each study's share of a time, and what it leaves out."""
    table = Table("study", "at most", "needs about", "without", box=None, pad_edge=False)
    for share in shared:
        times = map(format.duration, (share.seconds, share.needs_seconds))
        table.add_row(*map(Text, (share.study.name, *times, "; ".join(share.left_out) or "nothing: it is whole")))
    console.print(table)
    kept = [share for share in shared if share.seconds]
    needed, given = sum(share.needs_seconds for share in kept), sum(share.seconds for share in kept)
    said = f"{len(kept)} studies need about {format.duration(needed)} and have {format.duration(given)}"
    if len(kept) < len(shared):
        said += f"; there is not enough time for the other {len(shared) - len(kept)}"
    console.print(Text(said, style="bold"), soft_wrap=True)


def print_list(studies: Sequence[Study], console: Console) -> None:
    """Prints a table of contents of the sources: the reproduced items, their studies, and their durations."""
    for source, placed in by_source(studies, lambda study: study.source).items():
        console.print(Text(source, style="bold"))
        if (full := citation(source)) is not None:
            console.print(Text(full, style="dim"))
        contents = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        contents.add_column(width=_PLACE_COLUMNS)
        for place, study in placed:
            runs = Text(f"{study.name}  ", style="cyan") + Text(_takes([study]), style="dim")
            contents.add_row(Text(place), Text(f"{study.title}\n") + runs)
        console.print(Padding(contents, (0, 0, 1, 2)))
    console.print(Text(f"all {len(studies)}  {_takes(studies)}", style="bold"))


def _takes(studies: Sequence[Study]) -> str:
    whole, quick = (sum(map(whole_seconds, each)) for each in (studies, [study.shortened() for study in studies]))
    return f"~{format.duration(whole)}, quick ~{format.duration(quick)}"
