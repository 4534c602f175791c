"""`sojourn compare`: two load runs or groups of them, with intervals and verdicts; or studies on two machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun

if TYPE_CHECKING:
    from sojourn.loading.comparison import Comparison, Group


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare")(_compare)


def _compare(
    first: Annotated[
        str,
        typer.Argument(help="Run folders or JSON results of the first, separated by commas; or a folder of studies."),
    ],
    second: Annotated[str, typer.Argument(help="The same of the second.")],
    max_regression: Annotated[
        str | None, typer.Option(help="Exit with 1 if a metric is shown to be worse by more than this, as in 5%.")
    ] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Compare load runs: is the second faster, by how much, and is that more than chance?

    Each metric's ratio has a 95 % confidence interval. With several repetitions of each, the spread between runs
    decides; with one of each, the spread between parts of the runs. Runs whose generator was the limit get no verdict.
    Of two folders of studies, as of two machines, the verdicts are put beside each other, and figures over figures.

    Example: sojourn compare runs/before-1,runs/before-2,runs/before-3 runs/after-1,runs/after-2,runs/after-3
    """
    from sojourn.loading import metrics
    from sojourn.loading.comparison import compare

    if _are_studies(first, second):
        if max_regression is not None:
            raise CouldNotRun("studies have no regressions", "compare two runs of one load for that")
        _compare_studies(Path(first), Path(second), output_format)
        return
    limit = None if max_regression is None else metrics.find("error_rate").parse(max_regression)
    comparison = compare(_group(first), _group(second))
    if output_format is Format.json:
        print_json(comparison.as_json())
    else:
        _print(comparison)
    regressed = limit is not None and any(each.worse_by > limit for each in comparison.differences)
    if comparison.void_because or regressed:
        raise typer.Exit(EXIT_RAN_WITH_FAILURES)


def _are_studies(first: str, second: str) -> bool:
    from sojourn.study.comparison import is_of_studies

    return is_of_studies(Path(first)) and is_of_studies(Path(second))


def _compare_studies(first: Path, second: Path, output_format: Format) -> None:
    from sojourn.report.study.terminal import print_comparison
    from sojourn.study.comparison import compare

    comparisons = compare(first, second)
    if output_format is Format.json:
        print_json({"studies": [each.as_json() for each in comparisons]})
        return
    for each in comparisons:
        print_comparison(each, data)


def _group(text: str) -> Group:
    from sojourn.loading import folder
    from sojourn.loading.comparison import Group

    paths = [Path(part) for part in text.split(",") if part]
    if not paths:
        raise CouldNotRun("there is no run to compare", "give two runs, as in sojourn compare runs/a runs/b")
    environments = [folder.environment(path) for path in paths if path.is_dir()]
    return Group(text, [folder.read(path) for path in paths], [each for each in environments if each])


def _print(comparison: Comparison) -> None:
    from rich.text import Text

    from sojourn.report.terminal import table

    for because in comparison.void_because:
        data.print(Text(f"NO VERDICT: {because}", style="bold red"), soft_wrap=True)
    rows = table("metric", "first", "second", "ratio")
    rows.add_column("verdict at 95 %")
    styles = {"better": "green", "worse": "bold red"}
    for each in comparison.differences:
        verdict = "void" if comparison.void_because else str(each)
        write = each.metric.write
        ratio = "–" if each.ratio != each.ratio else f"{each.ratio:.3f}"
        shown = Text(verdict, style=styles.get(each.finding, ""))
        rows.add_row(Text(each.metric.name), write(each.first), write(each.second), ratio, shown)
    data.print(rows)
    for warning in comparison.warnings:
        data.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
