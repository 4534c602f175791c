"""The verdicts that decide an assessment's exit code: a failed one gives exit code 1, and a failure in JUnit's file."""

from __future__ import annotations

from sojourn.applications import baseline
from sojourn.applications.summary import ApplicationSummary, ObjectiveAnswer, Verdict
from sojourn.results.records import Interval
from sojourn.text import format

ABANDONED_MAX = 0.01
"""The default limit on the share of abandoned requests below the knee."""


def of(summary: ApplicationSummary, abandoned_max: float) -> list[Verdict]:
    """All verdicts on a run.

    Args:
        summary: all of it but these.
        abandoned_max: the share of abandoned requests that is allowed.
    """
    complete = "" if summary.complete else f"incomplete: {summary.incomplete_because}"
    found = [Verdict(name="the assessment is complete", passed=summary.complete, because=complete)]
    found += [
        Verdict(
            name=each.objective,
            passed=each.holds,
            because=objective_in_words(each, summary),
        )
        for each in summary.objectives
    ]
    if summary.abandoned_fraction is not None:
        found.append(
            Verdict(
                name="abandoned requests",
                passed=summary.abandoned_fraction <= abandoned_max,
                because=f"{summary.abandoned_fraction:.2%} of the requests below the knee were never sent, because one "
                f"before them had failed ({abandoned_max:.2%} allowed)",
            )
        )
    if summary.comparison is not None:
        found += [
            Verdict(
                name=f"{each.what} against {summary.comparison.baseline}",
                passed=None if each.fell is None else not each.fell,
                because=baseline.in_words(each),
            )
            for each in summary.comparison.changes
        ]
    return found


def objective_in_words(objective: ObjectiveAnswer, summary: ApplicationSummary) -> str:
    """An objective with how far it holds."""
    word = {True: "holds", False: "FAILS", None: "not decided"}[objective.holds]
    if objective.capacity is None:
        where = "not at any load" if objective.holds is False else "at no load that was measured"
        return f"{word}  {objective.objective}: {where}"
    bound = "at least " if objective.is_lower_bound else ""
    required = format.rate(summary.required_requests_per_second or 0.0)
    if summary.required_users is not None:
        required += f", of {summary.required_users:,} users"
    return f"{word}  {objective.objective}: up to {bound}{rates(objective.capacity)} requests/s (required: {required})"


def rates(interval: Interval) -> str:
    """A rate with its interval."""
    if interval.low == interval.high:
        return f"{interval.estimate:,.4g}"
    return f"{interval.estimate:,.4g} ({interval.low:,.4g} to {interval.high:,.4g})"
