"""The page of a fit: estimates, errors at points that were held out, the calculator beside what was measured."""

from __future__ import annotations

from sojourn import __version__
from sojourn.calibration.fit import Fit, said
from sojourn.planning.system_document import SystemDocument
from sojourn.report.markup import element, join, shell
from sojourn.report.tables import texts
from sojourn.report.what_if.section import Measured, MeasuredPoint, Question, what_if
from sojourn.text import format


def page(found: Fit) -> str:
    """The page as text."""
    text = found.system_text()
    document = SystemDocument.parse(text, "the fitted system")
    estimates = [(name, said(value)) for name, value in found.estimates.items() if said(value)]
    errors = [
        [
            each.quantity,
            format.percent(each.relative_error_median),
            format.percent(each.relative_error_max),
            f"{each.points:,}",
            each.method,
        ]
        for each in found.held_out
    ]
    main = join(
        element(
            "section",
            element("h2", "Estimates"),
            [element("p", f"Warning: {warning}", class_="missing") for warning in found.warnings],
            texts("table-estimates", "Parameters", ["", "estimate (95 % interval)"], list(map(list, estimates))),
            texts(
                "table-held-out",
                "Errors at points that were not fitted",
                ["predicted", "median error", "largest error", "points", "how they were held out"],
                errors,
            )
            if errors
            else None,
            id="answer",
        ),
        what_if(document, _question(found, document)),
        element("section", element("h2", "The system file"), element("pre", text), id="system"),
    )
    subtitle = f"{found.points:,} points of {found.kind}"
    return shell("fit", ", ".join(found.sources), subtitle, main, __version__, (), calculates=True)


def _question(found: Fit, document: SystemDocument) -> Question:
    first = document.system.classes[0]
    if not found.measured or first.rate_per_second is None:
        return Question()
    points = [
        MeasuredPoint(each.requests_per_second, each.mean_seconds, None, None)
        for each in sorted(found.measured, key=lambda each: each.requests_per_second)
    ]
    return Question(measured=Measured(f"class.{first.name}.rate", points))
