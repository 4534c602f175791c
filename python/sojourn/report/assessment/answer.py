"""The first screen: the capacity, the bottleneck, the next bottleneck, and reasons for doubt."""

from __future__ import annotations

from sojourn.assessment.summary import Answer, Doubling, Resource, Summary
from sojourn.report.assessment import wording
from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup, element, join
from sojourn.text import format


def first_screen(run: Run) -> Markup:
    """Warnings that a reader must not miss, then the answer."""
    summary = run.summary
    answer = summary.answer
    body = _answered(answer, summary) if answer else _unanswered(summary)
    withheld = [wording.withheld(each) for each in answer.withheld] if answer else []
    return join(_marks(summary), body, _warnings([*summary.warnings, *withheld]))


def _marks(summary: Summary) -> list[Markup]:
    marks = []
    if not summary.complete:
        because = summary.incomplete_because or "the reason was not recorded"
        marks.append(_mark("grave", "Incomplete run", f"{because}. What was measured until then is below."))
    bound = wording.lower_bound(summary)
    if bound:
        title = "Generator limited" if summary.knee and summary.knee.reason == "generator" else "Lower bound"
        marks.append(_mark("caution", title, f"{bound}."))
    limited = [step for step in summary.steps if step.generator_limited]
    if limited and not bound:
        rates = ", ".join(format.number(step.offered_requests_per_second) for step in limited)
        said = f"at {rates} requests/s the generator, not the server, was the limit; these steps are crossed out."
        marks.append(_mark("caution", "Some steps are generator limited", said))
    return marks


def _mark(class_: str, title: str, text: str) -> Markup:
    return element("p", element("strong", f"{title}:"), " ", text, class_=f"notice {class_}", role="alert")


def _answered(answer: Answer, summary: Summary) -> Markup:
    value = format.number(answer.largest_rate_requests_per_second)
    number = element(
        "p",
        element("span", "at least ", class_="bound") if answer.is_lower_bound else None,
        element("strong", value),
        " requests/s",
        class_="number",
    )
    condition = element("p", f"{wording.target(summary.settings)}.", class_="condition")
    interval = element("p", f"{wording.interval(answer)}.", class_="interval")
    left = element("div", number, condition, interval, _sentences(answer), class_="headline")
    return element("div", left, element("div", _facts(answer), class_="facts"), class_="answer")


def _unanswered(summary: Summary) -> Markup:
    number = element("p", element("strong", "No answer"), class_="number none")
    return element("div", number, element("p", wording.no_answer(summary), class_="condition"))


def _sentences(answer: Answer) -> Markup:
    return element("div", [element("p", sentence) for sentence in answer.sentences], class_="sentences")


def _facts(answer: Answer) -> Markup:
    facts = [
        ("Bottleneck", wording.bottleneck(answer), answer.bottleneck_because),
        (
            "Next",
            answer.next_bottleneck or "not measured: no other resource was used enough to estimate its limit",
            None,
        ),
        ("Headroom", wording.headroom(answer), None),
        ("Covers", wording.covers(answer), None),
    ]
    rows = [
        element("div", element("dt", name), element("dd", value, element("small", more) if more else None))
        for name, value, more in facts
    ]
    return join(element("dl", rows), _resources(answer))


def _resources(answer: Answer) -> Markup:
    """Each resource: its utilisation at the answer's rate, its own saturation rate, and the gain from doubling it."""
    doubling = {each.resource: each for each in answer.doubling}
    known = {each.name for each in answer.resources}
    rows = [_resource(each, doubling.get(each.name)) for each in answer.resources]
    rows += [_figures(each.resource, None, None, each) for each in answer.doubling if each.resource not in known]
    head = ("Resource", "Utilisation", "Its own limit, requests/s", "Doubled, requests/s", "Gain")
    return element(
        "table",
        element("thead", element("tr", [element("th", name, scope="col") for name in head])),
        element("tbody", rows),
        class_="resources",
    )


def _resource(resource: Resource, doubling: Doubling | None) -> Markup:
    figures = _figures(resource.name, resource.utilisation, resource.limit_requests_per_second, doubling)
    evidence = element("td", resource.evidence, colspan=5)
    return join(figures, element("tr", evidence, class_="evidence"))


def _figures(name: str, utilisation: float | None, limit: float | None, doubling: Doubling | None) -> Markup:
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", format.percent(utilisation), _meter(utilisation)),
        element("td", format.number(limit)),
        element("td", format.number(doubling.requests_per_second if doubling else None)),
        element("td", wording.gain(doubling.gain_fraction if doubling else None)),
    )


def _meter(fraction: float | None) -> Markup | None:
    if fraction is None:
        return None
    return element("span", element("span", style=f"width:{min(100.0, fraction * 100):.0f}%"), class_="meter")


def _warnings(warnings: list[str]) -> Markup | None:
    if not warnings:
        return None
    heading = element("h2", f"{len(warnings)} warning" + ("s" if len(warnings) > 1 else ""))
    return element("div", heading, element("ul", [element("li", each) for each in warnings]), class_="warnings")
