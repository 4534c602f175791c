"""`sojourn compare`: compares two load runs, or groups of runs, with confidence intervals; or studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.failure import EXIT_RAN_WITH_FAILURES, CouldNotRun


def register(app: typer.Typer) -> None:
    app.command("compare")(_compare)


def _compare(
    first: Annotated[
        str,
        typer.Argument(
            help="Runs of the first: folders (also of repetitions) or JSON results, comma-separated; or studies."
        ),
    ],
    second: Annotated[str, typer.Argument(help="Runs of the second.")],
    max_regression: Annotated[
        str | None, typer.Option(help="Exit with 1 if a metric is significantly worse by more than this, such as 5%.")
    ] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Compare load runs: is the second faster, by how much, and is that more than chance?

    The command prints the ratio of each metric with a 95 % confidence interval from the variation between repetitions.
    The interval is narrowest where the two were measured in turn (sojourn load URL --against OTHER --repeat 5). With a
    single run of each only a large difference is significant; for the rest the command reports that it cannot tell.
    Runs in which the generator was the bottleneck get no verdict. For two folders of studies, such as from two
    machines, the command compares the verdicts and overlays the figures.

    Example: sojourn compare runs/before runs/after --max-regression 5%
    """
    from sojourn.commands.repeated_load import failed, group
    from sojourn.loading import metrics
    from sojourn.loading.comparison import compare
    from sojourn.report.load.comparison import print_comparison

    if _are_studies(first, second):
        if max_regression is not None:
            raise CouldNotRun("--max-regression does not apply to studies", "leave it out, or compare two load runs")
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
