"""Converts engine results to the rows of `points.parquet` and to the steps of the summary."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, JsonValue

from sojourn.assessment import averages
from sojourn.assessment.measurement import observed
from sojourn.assessment.rising_load import OTHERS_FRACTION_MAX, Effort, error_fraction, generator_limited, offered
from sojourn.assessment.summary import Step, Undisturbed
from sojourn.engine.results import CoreLoss, Timeline, Unavailable
from sojourn.engine.results import Undisturbed as UndisturbedWindows
from sojourn.loading import record
from sojourn.results.records import Spread
from sojourn.text import format

Row = dict[str, JsonValue]
Span = tuple[float, float]
"""Begin and end in seconds."""

OBSERVED = (
    "cpu_seconds",
    "cpu_seconds_per_request",
    "cpu_fraction",
    "cpu_user_fraction",
    "core_busy_fraction",
    "core_softirq_fraction",
    "core_steal_fraction",
    "major_faults",
    "minor_faults",
    "voluntary_switches",
    "involuntary_switches",
    "resident_bytes",
)


WORK_REQUESTS_MIN = 200
"""The CPU time per request is taken over so many requests: over fewer, their sizes decide it rather than the core."""


class Work(NamedTuple):
    """CPU time over one or more windows, in seconds since the climb's start and seconds."""

    begin: float
    end: float
    requests: float
    server_seconds: float
    generator_seconds: float


@dataclass(frozen=True)
class Sent:
    """Identifies the requests of a step that the generator sent, and the windows of their responses."""

    rates: tuple[float, ...]
    """Requests/s of the climb's steps up to this one."""
    step_seconds: float
    settle_seconds: float
    seed: int
    windows: tuple[Span, ...]
    """The undisturbed windows in seconds since the climb's start; the measured part where windows are not judged."""
    server_interruptions: tuple[Span, ...] = ()
    """When others had the server's core, in seconds since the climb's start, ascending."""
    generator_interruptions: tuple[Span, ...] = ()
    """The same of the generator's core."""
    work: tuple[Work, ...] = ()
    """What its requests cost, settling included, ascending; empty where CPU time was not measured."""
    server_speeds: tuple[tuple[float, float], ...] = ()
    """Begins and speeds of the server's core relative to the step's usual speed, as computed by `with_speeds`."""


class ClimbStep(record.Step):
    """A step of a climb, with figures from its timeline."""

    server_core_lost_squared_seconds: float | None = None
    """The interruptions of the step, as computed by `lost_squared`."""
    sent: Sent | None = Field(default=None, exclude=True)
    """None if its sessions cannot be drawn again."""


def of_climb(result: record.RequestsRecord, effort: Effort, unjudged_because: str | None = None) -> list[ClimbStep]:
    """The steps of a climb, with figures from its timeline.

    Args:
        result: the climb.
        effort: with the lengths of its steps.
        unjudged_because: why no window is left out as disturbed; None to leave out those that the engine judged so.
    """
    rates = tuple(map(offered, result.steps))
    found = []
    for index, step in enumerate(result.steps):
        whole = ClimbStep.model_validate(step.as_json())
        if unjudged_because is not None:
            whole = whole.model_copy(update={"undisturbed": Unavailable(unavailable=unjudged_because)})
        lost = lost_squared(result.timeline, index, whole) if result.timeline else None
        sent = Sent(
            rates[: index + 1],
            effort.step_seconds,
            effort.settle_seconds,
            result.seed,
            _windows(whole, index, result.timeline, effort),
            *_interruptions(whole, index, result.timeline),
            _work(index, result.timeline, effort),
        )
        found.append(whole.model_copy(update={"server_core_lost_squared_seconds": lost, "sent": sent}))
    return found


def _windows(step: record.Step, index: int, timeline: Timeline | None, effort: Effort) -> tuple[Span, ...]:
    if isinstance(step.undisturbed, Unavailable) or timeline is None:
        start = index * effort.step_seconds
        return ((start + effort.settle_seconds, start + effort.step_seconds),)
    columns = timeline.columns
    spans = pairwise([0.0, *columns.time_seconds])
    rows = zip(spans, columns.step, columns.undisturbed, strict=True)
    return tuple(span for span, of, undisturbed in rows if of == index and undisturbed)


def _interruptions(
    step: record.Step, index: int, timeline: Timeline | None
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """What each core lost in a window of the step beyond the usual, in one piece, about the window's middle.

    Where in the window it was is not known, nor in how many pieces: one piece delays most.
    """
    if isinstance(step.undisturbed, Unavailable) or timeline is None:
        return (), ()
    columns = timeline.columns
    begins = [0.0, *columns.time_seconds]

    def spans(core: CoreLoss | Unavailable, lost: Sequence[float | None]) -> tuple[Span, ...]:
        usual = _usual_loss(core)
        if usual is None:
            return ()
        found = []
        for begin, end, of, seconds in zip(begins, columns.time_seconds, columns.step, lost, strict=False):
            taken = min(end - begin, (seconds or 0.0) - usual)
            if of == index and taken > 0:
                found.append(((begin + end - taken) / 2, (begin + end + taken) / 2))
        return tuple(found)

    return (
        spans(step.undisturbed.server_core, columns.server_core_lost_seconds),
        spans(step.undisturbed.generator_core, columns.generator_core_lost_seconds),
    )


def _work(index: int, timeline: Timeline | None, effort: Effort) -> tuple[Work, ...]:
    if timeline is None:
        return ()
    columns = timeline.columns
    start, stop = index * effort.step_seconds, (index + 1) * effort.step_seconds
    found: list[Work] = []
    open_since, sums = start, np.zeros(3)
    for begin, end, rate, server, generator in zip(
        [0.0, *columns.time_seconds],
        columns.time_seconds,
        columns.requests_per_second,
        columns.server_cpu_fraction,
        columns.generator_cpu_fraction,
        strict=False,
    ):
        if server is None or not open_since < end <= stop + WINDOW_SECONDS / 2:
            continue
        sums += np.array([rate, server, generator]) * (end - max(begin, start))
        if sums[0] >= WORK_REQUESTS_MIN:
            found.append(Work(open_since, end, *map(float, sums)))
            open_since, sums = end, np.zeros(3)
    return tuple(found)


SHARE_USED = 0.95
"""A server that uses at least this share of its quota is saturated."""


def saturated_by_share(steps: Sequence[ClimbStep], processors: float) -> list[ClimbStep]:
    """Marks the steps of a server with a quota as saturated if it used all of it."""
    return [
        step.model_copy(update={"server_saturated": (observed(step, "cpu_fraction") or 0.0) >= SHARE_USED * processors})
        for step in steps
    ]


def row(step: ClimbStep, climb: str) -> Row:
    """One step of one climb as a flat row, with nested names joined by underscores."""
    flat: Row = {"climb": climb}
    for name, value in step.as_json().items():
        if name == "probe":
            flat |= _probed(step.probe) if step.probe else {}
        elif name == "server":
            flat |= {f"server_{counter}": observed(step, counter) for counter in OBSERVED}
        elif isinstance(value, dict):
            flat |= {f"{name}_{part}": figure for part, figure in _leaves(value)}
        else:
            flat[name] = value
    return flat


def _leaves(value: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The values of nested objects with joined names."""
    for name, part in value.items():
        if isinstance(part, dict):
            yield from ((f"{name}_{deeper}", figure) for deeper, figure in _leaves(part))
        else:
            yield name, part


def _probed(probe: record.ProbeUse) -> Row:
    """Totals per second, means of levels, and costs per request."""
    flat: Row = {}
    for name, used in probe.counters.items():
        if used.total is not None:
            flat[f"probe_{name}_per_second"] = used.per_second
        else:
            flat[f"probe_{name}"] = used.mean
    per_request = {key: value for key, value in probe.as_json().items() if key != "counters"}
    # A missing figure is an object with the reason; the table has no value for it.
    return flat | {f"probe_{key}": None if isinstance(value, dict) else value for key, value in per_request.items()}


def over_levels(levels: Sequence[Sequence[ClimbStep]]) -> list[Step]:
    """The staircase's steps, each with the spread over its repetitions."""
    return [_step(level) for level in levels]


def levels(repetitions: Sequence[Sequence[ClimbStep]]) -> list[list[ClimbStep]]:
    """By step of the staircase, the repetitions with at least one response.

    Other repetitions have no times or rate; they remain in points.parquet.
    """
    height = max((len(steps) for steps in repetitions), default=0)
    reached = [[steps[index] for steps in repetitions if index < len(steps)] for index in range(height)]
    answered = [[step for step in level if step.requests > 0 and step.requests_per_second] for level in reached]
    return [level for level in answered if level]


def _step(level: Sequence[ClimbStep]) -> Step:
    def spread(of: Callable[[ClimbStep], float | None]) -> Spread | None:
        values = [value for value in map(of, level) if value is not None]
        if not values:
            return None
        return Spread(median=statistics.median(values), minimum=min(values), maximum=max(values))

    def known(of: Callable[[ClimbStep], float | None]) -> Spread:
        found = spread(of)
        assert found is not None, "a step with answers has all figures"
        return found

    within = [step.limit is None for step in level]
    limited = [generator_limited(step) for step in level]
    steady = [step.steady for step in level]
    return Step(
        offered_requests_per_second=offered(level[0]),
        repetitions=len(level),
        requests_per_second=known(lambda step: step.requests_per_second),
        bytes_per_second=known(lambda step: step.bytes_per_second),
        time_to_first_byte_p95_seconds=known(lambda step: step.time_to_first_byte_intended_seconds.p95),
        response_time_mean_seconds=known(lambda step: step.response_time_seconds.mean),
        response_time_p50_seconds=known(lambda step: step.response_time_seconds.p50),
        response_time_p90_seconds=spread(lambda step: step.response_time_seconds.p90),
        response_time_p95_seconds=known(lambda step: step.response_time_seconds.p95),
        response_time_p99_seconds=known(lambda step: step.response_time_seconds.p99),
        response_time_p999_seconds=spread(lambda step: step.response_time_seconds.p999),
        error_fraction=known(error_fraction),
        connections_open_mean=known(lambda step: step.connections_open_mean),
        server_cpu_fraction=spread(lambda step: observed(step, "cpu_fraction")),
        server_cpu_seconds_per_request=spread(lambda step: observed(step, "cpu_seconds_per_request")),
        server_core_busy_fraction=spread(lambda step: observed(step, "core_busy_fraction")),
        server_wakeups_per_request=_median([_wakeups(step) for step in level]),
        generator_cpu_fraction=known(lambda step: step.generator.cpu_fraction),
        generator_limited=_majority(limited),
        steady=_majority(steady),
        within_target=_majority(within),
        undisturbed=_undisturbed(level),
        undisturbed_unavailable=_unavailable(level),
        server_core_lost_squared=_median([step.server_core_lost_squared_seconds for step in level]),
        server_core_usual_fraction=_median([_usual_fraction(step, "server_core") for step in level]),
        generator_core_usual_fraction=_median([_usual_fraction(step, "generator_core") for step in level]),
        held_out=False,
        closed_form=None,
        simulation=None,
        closed_form_error=None,
        simulation_error=None,
    )


WINDOWS_MIN = 5
"""The fewest undisturbed windows for figures: with fewer they would cover half a second."""


def _undisturbed(level: Sequence[ClimbStep]) -> Undisturbed | None:
    """The figures over undisturbed windows of all repetitions; None with too few windows."""
    seen = [step.undisturbed for step in level]
    found = [each for each in seen if not isinstance(each, Unavailable) and each.requests]
    if sum(each.windows for each in found) < WINDOWS_MIN:
        return None

    def spread(of: Callable[[UndisturbedWindows], float | None]) -> Spread | None:
        values = [(value, each.requests) for each in found if (value := of(each)) is not None]
        if not values:
            return None
        return Spread(median=averages.weighted_median(values), minimum=min(values)[0], maximum=max(values)[0])

    rate = spread(lambda each: each.requests_per_second)
    mean = spread(lambda each: each.response_time_seconds.mean)
    p95 = spread(lambda each: each.response_time_seconds.p95)
    first_byte = spread(lambda each: each.time_to_first_byte_intended_seconds.p95)
    if rate is None or mean is None or p95 is None or first_byte is None:
        return None
    means = [(each.response_time_seconds.mean, each.requests) for each in found]
    p95s = [(each.response_time_seconds.p95, each.requests) for each in found]
    return Undisturbed(
        windows=sum(each.windows for each in found),
        windows_total=sum(each.windows_total for each in found),
        requests=sum(each.requests for each in found),
        requests_per_second=rate,
        response_time_mean_seconds=mean,
        response_time_p95_seconds=p95,
        response_time_mean_middle_seconds=averages.middle(means),
        response_time_p95_middle_seconds=averages.middle(p95s),
        response_time_mean_known_to=_known_to(means),
        response_time_p95_known_to=_known_to(p95s),
        time_to_first_byte_p95_seconds=first_byte,
        server_cpu_seconds_per_request=spread(lambda each: each.server_cpu_seconds_per_request),
    )


def _known_to(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Half the width of the interquartile mean's 95 % interval, relative; values with weights."""
    middle = averages.middle(values)
    half_width = averages.half_width([value for value, _ in values if value is not None])
    return half_width / middle if half_width is not None and middle else None


WINDOW_SECONDS = 0.1


def _usual_fraction(step: ClimbStep, of: Literal["server_core", "generator_core"]) -> float | None:
    core = None if isinstance(step.undisturbed, Unavailable) else getattr(step.undisturbed, of)
    if not isinstance(core, CoreLoss) or core.resolution_seconds > LOST_RESOLUTION_MAX_SECONDS:
        return None
    return core.usual_in_a_window_seconds / WINDOW_SECONDS


LOST_RESOLUTION_MAX_SECONDS = 0.002
"""Coarser sources are unusable: ticks of 10 ms do not show interruptions of that length."""


def lost_squared(timeline: Timeline, index: int, step: record.Step) -> float | None:
    """The interruptions of a step as nu E[H^2], in seconds: squared losses of the core per window, over the time.

    Several interruptions within a window count as one that is as long as all.

    Args:
        timeline: as the engine wrote it.
        index: of the step in its climb.
        step: the step's result, for the resolution of what is known of the core.
    """
    usual = None if isinstance(step.undisturbed, Unavailable) else _usual_loss(step.undisturbed.server_core)
    if usual is None:
        return None
    rows = zip(timeline.columns.step, timeline.columns.server_core_lost_seconds, strict=False)
    lost = [max(0.0, seconds - usual) for of, seconds in rows if of == index and seconds is not None]
    if not lost or timeline.interval_seconds is None:
        return None
    return float(sum(seconds**2 for seconds in lost) / (len(lost) * timeline.interval_seconds))


def _usual_loss(core: CoreLoss | Unavailable) -> float | None:
    """What the core loses in every window, in many small parts, in seconds: it belongs to the load.

    None if it is not known, or the source is too coarse to show interruptions beyond it.
    """
    if not isinstance(core, CoreLoss) or core.resolution_seconds > LOST_RESOLUTION_MAX_SECONDS:
        return None
    return core.usual_in_a_window_seconds


def _wakeups(step: ClimbStep) -> float | None:
    switches = observed(step, "voluntary_switches")
    return None if switches is None else switches / step.requests


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _unavailable(level: Sequence[ClimbStep]) -> str | None:
    if _undisturbed(level) is not None:
        return None
    reasons = [step.undisturbed.unavailable for step in level if isinstance(step.undisturbed, Unavailable)]
    return reasons[0] if reasons else f"fewer than {WINDOWS_MIN} windows were undisturbed"


def without_predictions(step: Step) -> Step:
    """The step without its predictions."""
    predictions = ("closed_form", "simulation", "closed_form_error", "simulation_error")
    return step.model_copy(update=dict.fromkeys(predictions))


def _majority(votes: Sequence[bool]) -> bool:
    return 2 * sum(votes) > len(votes)


WAIT_FRACTION_MAX = 0.05


def warnings(rows: Sequence[Row]) -> list[str]:
    """Warns if other programs used enough of either core to affect the figures."""
    found = []
    others = [
        busy - own
        for row in rows
        if isinstance(busy := row.get("server_core_busy_fraction"), float)
        and isinstance(own := row.get("server_cpu_fraction"), float)
    ]
    if others and statistics.mean(others) > OTHERS_FRACTION_MAX:
        found.append(
            f"Other processes used {format.percent(statistics.mean(others))} of the server's core: the server can do "
            "more than this on a quiet machine."
        )
    waits = [wait for row in rows if isinstance(wait := row.get("generator_core_wait_fraction"), float)]
    if waits and statistics.mean(waits) > WAIT_FRACTION_MAX:
        found.append(
            f"Other processes held the generator's core {format.percent(statistics.mean(waits))} of the time: response "
            "times include its lateness."
        )
    return found
