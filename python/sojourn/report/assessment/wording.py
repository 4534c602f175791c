"""The sentences that the report and the terminal share, so that both say the same in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.assessment.summary import Answer, Knee, Settings, Step, Summary
from sojourn.text import format

REASONS = {
    "throughput": "throughput stopped following the offered load",
    "time to first byte": "the p95 of time to first byte passed the target",
    "errors": "requests began to fail",
    "generator": "the load generator reached its own limit",
    "server stopped": "the server stopped",
    "not reached": "the load was not raised far enough to find it",
}
"""What ended the climb, as the end of a sentence."""


STEP_MARKS = {
    "h": "held out of the fit",
    "b": "beyond the target",
    "g": "generator limited",
    "u": "not steady",
}


def target(settings: Settings) -> str:
    """The response-time target, as the end of a sentence."""
    return f"with p95 time to first byte within {format.seconds(settings.target_p95_seconds)}"


def repetitions(knee: Knee) -> str:
    """The range of the knee over the repetitions."""
    count = len(knee.per_repetition)
    if count < 2:
        return "one repetition, its spread is not known"
    return f"{format.number(knee.low)} to {format.number(knee.high)} over {count} repetitions"


def bottleneck(answer: Answer) -> str:
    return answer.bottleneck or "not known"


def bottleneck_evidence(answer: Answer, knee: Knee) -> str:
    """The evidence that this is the bottleneck."""
    if answer.bottleneck is None:
        return f"{REASONS[knee.reason]}, and no step is left to fit a model on"
    if answer.bottleneck != "server CPU":
        return next(resource.evidence for resource in answer.resources if resource.name == answer.bottleneck)
    if knee.is_lower_bound:
        return f"by the models: {REASONS[knee.reason]}"
    return REASONS[knee.reason]


def headroom(answer: Answer) -> str:
    """How the answer compares with the log's own peak."""
    peak = format.rate(answer.log_peak_requests_per_second)
    return f"{format.factor(answer.headroom_over_log_peak)} the log's busiest minute ({peak})"


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
    answer, knee = summary.answer, summary.knee
    # A lower bound of the server's knee does not make the answer one where another resource saturates first.
    if not (answer.is_lower_bound if answer else knee and knee.is_lower_bound):
        return None
    reason = REASONS[knee.reason] if knee else "the knee was not found"
    return f"{reason}; the server can take at least this much"


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
