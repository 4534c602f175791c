"""The sentences that the report and the terminal share, so that both say the same in the same words."""

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
    """The capacity as an interval, with what its width comes from."""
    low, high = answer.low_requests_per_second, answer.high_requests_per_second
    between = f"{format.number(low)} to {format.number(high)}" if high is not None else f"{format.number(low)} or more"
    return f"{between}: {'; '.join(answer.interval_because)}"


def bottleneck(answer: Answer) -> str:
    return answer.bottleneck or "unknown"


def headroom(answer: Answer) -> str:
    """How the answer compares with the log's own peak."""
    if answer.headroom_over_log_peak is None:
        return "not known: the log has no busiest minute"
    peak = format.rate(answer.log_peak_requests_per_second)
    at_least = "at least " if answer.is_lower_bound else ""
    return f"{at_least}{format.factor(answer.headroom_over_log_peak)} the log's busiest minute ({peak})"


def covers(answer: Answer) -> str:
    """What share of the log the answer is about."""
    if answer.requests_fraction is None:
        return "not counted"
    of_bytes = f", {format.percent(answer.bytes_fraction)} of its bytes" if answer.bytes_fraction is not None else ""
    return f"{format.percent(answer.requests_fraction)} of the log's requests{of_bytes}"


def nearest_to_the_log(summary: Summary) -> Step | None:
    """The step whose load is nearest to the log's busiest minute, of those that the generator did not limit."""
    steps = [step for step in summary.steps if not step.generator_limited]
    peak = summary.answer.log_peak_requests_per_second if summary.answer else 0.0
    return min(steps, key=lambda step: abs(step.offered_requests_per_second - peak), default=None)


def logged_times(summary: Summary) -> str | None:
    """The response times that the log has beside those measured; None where it has none."""
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
    """Why there is no answer, and how far the run came."""
    because = summary.incomplete_because or "no knee was found"
    knee = summary.knee
    if knee:
        found = f"The knee was measured at {format.rate(knee.requests_per_second)}: {REASONS[knee.reason]}."
    else:
        found = f"Steps of rising load finished: {len(summary.steps)}."
    return f"The assessment did not reach one: {because}. {found}"


def lower_bound(summary: Summary) -> str | None:
    """Why the figure is a lower bound, or None where it is the server's own limit."""
    answer = summary.answer
    if answer is None or not answer.is_lower_bound:
        return None
    return f"{answer.lower_bound_because}; the server can take at least this much"


def withheld(refused: Withheld) -> str:
    """A figure that is not printed, why, and the cure."""
    return f"withheld: {refused.figure}: {refused.reason}; {refused.cure}"


def gain(fraction: float | None) -> str:
    """The gain from doubling a resource; under 0.5 % counts as none."""
    if fraction is None:
        return format.NOT_MEASURED
    return "none" if abs(fraction) < 0.005 else f"{fraction * 100:+,.0f} %"


def step_marks(step: Step) -> list[str]:
    """What a reader must know of a step beside its figures, as letters; `STEP_MARKS` says what they mean."""
    held = {
        "h": step.held_out,
        "b": not step.within_target,
        "g": step.generator_limited,
        "u": not step.steady,
    }
    return [letter for letter, holds in held.items() if holds]


def step_marks_legend(steps: Sequence[Step]) -> str:
    """The meaning of the letters that occur among the steps."""
    occurring = {letter for step in steps for letter in step_marks(step)}
    return ", ".join(f"{letter} {meaning}" for letter, meaning in STEP_MARKS.items() if letter in occurring)


def windows(steps: Sequence[Step]) -> str:
    """What share of the windows the response times are over; empty where they are over all."""
    found = [step.undisturbed for step in steps if step.undisturbed]
    if not found:
        return ""
    share = sum(each.windows for each in found) / max(1, sum(each.windows_total for each in found))
    return f"mean R over the undisturbed {format.percent(share)} of the windows"
