"""Sentences that the report and the terminal share."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.assessment.answer import REASONS
from sojourn.assessment.summary import Answer, Settings, Step, Summary, Withheld
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics

STEP_MARKS = {
    "h": "held out of the fit",
    "b": "beyond the target",
    "g": "generator limited",
    "u": "not steady",
}


def target(settings: Settings) -> str:
    """The response-time target, as the end of a sentence."""
    return f"with p95 time to first byte within {format.seconds(settings.target_p95_seconds)}"


def interval(answer: Answer) -> str:
    """The capacity as an interval, with the source of its width."""
    low, high = answer.low_requests_per_second, answer.high_requests_per_second
    between = f"{format.number(low)} to {format.number(high)}" if high is not None else f"{format.number(low)} or more"
    return f"{between}: {'; '.join(answer.interval_because)}"


def bottleneck(answer: Answer) -> str:
    return answer.bottleneck or "unknown"


def headroom(answer: Answer) -> str:
    """Compares the answer with the log's own peak."""
    if answer.headroom_over_log_peak is None:
        return "not known: the log has no busiest minute"
    peak = format.rate(answer.log_peak_requests_per_second)
    at_least = "at least " if answer.is_lower_bound else ""
    return f"{at_least}{format.factor(answer.headroom_over_log_peak)} the log's busiest minute ({peak})"


def covers(answer: Answer) -> str:
    """The share of the log that the answer covers."""
    if answer.requests_fraction is None:
        return "not counted"
    of_bytes = f", {format.percent(answer.bytes_fraction)} of its bytes" if answer.bytes_fraction is not None else ""
    return f"{format.percent(answer.requests_fraction)} of the log's requests{of_bytes}"


def nearest_to_the_log(summary: Summary) -> Step | None:
    """The step with the load nearest to the log's busiest minute, among those that the generator did not limit."""
    steps = [step for step in summary.steps if not step.generator_limited]
    peak = summary.answer.log_peak_requests_per_second if summary.answer else 0.0
    return min(steps, key=lambda step: abs(step.offered_requests_per_second - peak), default=None)


def logged_times(summary: Summary) -> str | None:
    """The log's own response times beside the measured ones; None if it has none."""
    times = Characteristics(summary.characteristics).request_times()
    if not times:
        return None
    logged = times[0]
    said = f"p50 {format.seconds(logged.p50)}, p95 {format.seconds(logged.p95)}, p99 {format.seconds(logged.p99)}"
    step = nearest_to_the_log(summary)
    if step is None:
        return said
    spreads = (step.response_time_p50_seconds, step.response_time_p95_seconds, step.response_time_p99_seconds)
    p50, p95, p99 = (format.seconds(each.median) for each in spreads)
    load = format.rate(step.offered_requests_per_second)
    return f"{said} by the log; measured at {load}: p50 {p50}, p95 {p95}, p99 {p99}"


def no_answer(summary: Summary) -> str:
    """The reason why there is no answer, and how far the run came."""
    because = summary.incomplete_because or "no knee was found"
    knee = summary.knee
    if knee:
        found = f"The knee was measured at {format.rate(knee.requests_per_second)}: {REASONS[knee.reason]}."
    else:
        found = f"Steps of rising load finished: {len(summary.steps)}."
    return f"The assessment did not reach one: {because}. {found}"


def lower_bound(summary: Summary) -> str | None:
    """The reason why the capacity is only a lower bound; None if it is the server's limit."""
    answer = summary.answer
    if answer is None or not answer.is_lower_bound:
        return None
    return f"{answer.lower_bound_because}; the server can take at least this much"


def withheld(refused: Withheld) -> str:
    """Explains a withheld figure: the reason and a suggested fix."""
    return f"withheld: {refused.figure}: {refused.reason}; {refused.cure}"


def gain(fraction: float | None) -> str:
    """The gain from doubling a resource; less than 0.5 % counts as none."""
    if fraction is None:
        return format.NOT_MEASURED
    return "none" if abs(fraction) < 0.005 else f"{fraction * 100:+,.0f} %"


def step_marks(step: Step) -> list[str]:
    """Letters that flag a step's peculiarities; `STEP_MARKS` explains them."""
    held = {
        "h": step.held_out,
        "b": not step.within_target,
        "g": step.generator_limited,
        "u": not step.steady,
    }
    return [letter for letter, holds in held.items() if holds]


def step_marks_legend(steps: Sequence[Step]) -> str:
    """Explains the letters that occur among the steps."""
    occurring = {letter for step in steps for letter in step_marks(step)}
    return ", ".join(f"{letter} {meaning}" for letter, meaning in STEP_MARKS.items() if letter in occurring)


def windows(steps: Sequence[Step]) -> str:
    """The share of windows behind the response times; empty if all were used."""
    found = [step.undisturbed for step in steps if step.undisturbed]
    if not found:
        return ""
    share = sum(each.windows for each in found) / max(1, sum(each.windows_total for each in found))
    return f"mean R over the undisturbed {format.percent(share)} of the windows"
