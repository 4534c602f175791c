"""`sojourn compare`: two load runs or groups of them, with intervals and verdicts; or studies on two machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare")(_compare)


def _compare(
    first: Annotated[
        str,
        typer.Argument(
            help="Runs of the first: a folder, also of repetitions, a JSON result, several by commas; or of studies."
        ),
    ],
    second: Annotated[str, typer.Argument(help="The same of the second.")],
    max_regression: Annotated[
        str | None, typer.Option(help="Exit with 1 if a metric is shown to be worse by more than this, as in 5%.")
    ] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Compare load runs: is the second faster, by how much, and is that more than chance?

    Each metric's ratio has a 95 % confidence interval from what repetitions differ by: least where the two were
    measured in turn (sojourn load URL --against OTHER --repeat 5). One run of each decides nothing but what is far
    beyond: of the rest the command cannot say. Runs whose generator was the limit get no verdict. Of two folders of
    studies, as of two machines, the verdicts are put beside each other, and figures over figures.

    Example: sojourn compare runs/before runs/after --max-regression 5%
    """
    from sojourn.commands.repeated_load import failed, group
    from sojourn.loading import metrics
    from sojourn.loading.comparison import compare
    from sojourn.report.load.comparison import print_comparison

    if _are_studies(first, second):
        if max_regression is not None:
            raise CouldNotRun("studies have no regressions", "compare two runs of one load for that")
        _compare_studies(Path(first), Path(second), output_format)
        return
    limit = None if max_regression is None else metrics.find("error_rate").parse(max_regression)
    comparison = compare(group(first), group(second))
    if output_format is Format.json:
        print_json(comparison.as_json(limit))
    else:
        print_comparison(comparison, limit, data)
    if failed(comparison, limit):
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
