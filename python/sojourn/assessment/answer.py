"""The answer: the capacity as an interval, the bottleneck, the next one, and what doubling each resource gives.

The answer combines two sources. Each resource's own limit is computed (`resources`, the model); the resource saturated
at the knee is measured (`loading.saturation`). A bottleneck is named if both agree, or if the measurement could not
show it: the access line is computed, not emulated. If they disagree, none is named. Every figure passes the checks of
`plausibility`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.assessment import plausibility
from sojourn.assessment.plausibility import BOTTLENECK_UTILISATION_MIN, QUIET
from sojourn.assessment.resources import Helpers, Line, LogRates
from sojourn.assessment.rising_load import OTHERS_FRACTION_MAX
from sojourn.assessment.summary import Answer, Doubling, Knee, Model, Resource, Step, Withheld
from sojourn.loading.record import Saturation, Use
from sojourn.loading.saturation import written
from sojourn.text import format

CPU, LINE, HELPERS = "server CPU", "access line", "helpers"
HELPERS_UTILISATION_MIN = 0.01
"""If the helpers are less busy than this at the CPU's limit, their own limit would be mere extrapolation."""
CPU_SATURATED_FRACTION = 0.85
"""The server counts as CPU-bound if it uses this share of its core at the knee: the rest are moments without work."""
DEARER_MAX = 1.3
"""Other work takes caches and memory, too: beside it a request may take this many times the CPU time that it takes
alone. docs/assessment-benchmark.md has how many intervals with it contain the capacity of a quiet machine.
"""
SPEED_RANGE_SAID = 1.1
"""If the core was faster by this factor in one repetition than in another, the answer says so."""
SAME_LIMIT = 0.02
"""Steps whose rates differ by less are one level of load."""

NAMES = {"CPU": CPU, "network": LINE, "helpers": HELPERS}
"""Names of measured resources that differ in the answer."""

REASONS = {
    "throughput": "throughput stopped following the offered load",
    "time to first byte": "the p95 time to first byte passed the target",
    "errors": "requests began to fail",
    "generator": "the load generator reached its own limit before the server did",
    "server stopped": "the server stopped",
    "not reached": "the server kept up with every load up to the highest that may be offered",
}
"""The reason for the climb's end, as a clause."""


@dataclass(frozen=True)
class Evidence:
    """The basis of an answer."""

    knee: Knee
    steps: Sequence[Step]
    model: Model | None
    saturation: Saturation | None
    line: Line | None
    helpers: Helpers | None
    rates: LogRates
    target_p95_seconds: float
    seed: int
    withheld: Sequence[Withheld] = ()
    """Figures withheld earlier."""
    requests_fraction: float | None = None
    """The share of the log's requests that the static copy represents; None if not counted."""
    bytes_fraction: float | None = None
    other_work_before: float | None = None
    """The share of the server's core used by other work before the first stage; None if unknown."""
    processors: float | None = None
    """The server's share of its processor; None without a limit."""


def answer(evidence: Evidence) -> Answer:
    """Combines limits and measurements."""
    limits, withheld = _limits(evidence)
    knee = evidence.knee
    disturbed = _disturbance(evidence)
    line_limit = limits.get(LINE)
    line_ends_it = line_limit is not None and line_limit < knee.requests_per_second
    largest = line_limit if line_ends_it and line_limit is not None else knee.requests_per_second
    is_lower_bound = not line_ends_it and (knee.is_lower_bound or disturbed is not None)
    bound_because = None
    if is_lower_bound:
        bound_because = disturbed if not knee.is_lower_bound else REASONS[knee.reason]
    low, high, because = _interval(evidence, largest, line_limit, line_ends_it=line_ends_it)
    resources = _resources(evidence, limits, largest)
    bottleneck, why = _bottleneck(evidence, limits, resources, line_ends_it)
    ranked = sorted(limits, key=lambda name: limits[name])
    others = [name for name in ranked if name != bottleneck]
    doubling: list[Doubling] = []
    if bottleneck in limits:
        doubling, refused = _doublings(limits, ranked, evidence.knee.requests_per_second, _highest(evidence))
        withheld += refused
    found = Answer(
        largest_rate_requests_per_second=largest,
        low_requests_per_second=min(low, largest),
        high_requests_per_second=None if high is None else max(high, largest),
        interval_because=because,
        is_lower_bound=is_lower_bound,
        lower_bound_because=bound_because,
        bottleneck=bottleneck,
        bottleneck_because=why,
        next_bottleneck=others[0] if bottleneck in limits and others else None,
        resources=resources,
        doubling=doubling,
        withheld=withheld,
        log_average_requests_per_second=evidence.rates.average,
        log_peak_requests_per_second=evidence.rates.peak,
        requests_fraction=evidence.requests_fraction,
        bytes_fraction=evidence.bytes_fraction,
        headroom_over_log_peak=largest / evidence.rates.peak if evidence.rates.peak > 0 else None,
        sentences=[],
    )
    return found.model_copy(update={"sentences": _sentences(found, evidence)})


def _limits(evidence: Evidence) -> tuple[dict[str, float], list[Withheld]]:
    """Each resource's own limit, as far as the measurements support it."""
    knee, withheld = evidence.knee, list(evidence.withheld)
    limits: dict[str, float] = {}
    highest = _highest(evidence)
    kept_up = max([knee.low, *(step.offered_requests_per_second for step in evidence.steps if step.within_target)])
    if not knee.is_lower_bound:
        limits[CPU] = knee.requests_per_second
    elif evidence.model is not None:
        limits[CPU] = max(knee.requests_per_second, evidence.model.capacity_requests_per_second)
    if evidence.line is not None:
        limits[LINE] = evidence.line.largest_rate(evidence.target_p95_seconds, evidence.seed)
        if limits[LINE] > plausibility.LIMIT_OVER_HIGHEST_MAX * highest:
            del limits[LINE]
            withheld.append(plausibility.beyond(f"limit of the {LINE}", highest))
    helpers = evidence.helpers
    if helpers is not None and helpers.utilisation(knee.requests_per_second) >= HELPERS_UTILISATION_MIN:
        refused = plausibility.limit(HELPERS, helpers.limit, highest, kept_up)
        if refused is None:
            limits[HELPERS] = helpers.limit
        else:
            withheld.append(refused)
    return limits, withheld


def _highest(evidence: Evidence) -> float:
    """The highest measured rate in requests/s."""
    return max([evidence.knee.high, *(step.requests_per_second.maximum for step in evidence.steps)])


def _disturbance(evidence: Evidence) -> str | None:
    """The reason why other work makes the knee a lower bound; None if it does not."""
    during, before = evidence.knee.others_fraction or 0.0, evidence.other_work_before or 0.0
    if during > OTHERS_FRACTION_MAX:
        return f"other work had {format.percent(during)} of the server's core at the knee"
    # Bursts of work may affect some steps only.
    if before > OTHERS_FRACTION_MAX:
        return f"other work had {format.percent(before)} of the server's core before the first stage"
    return None


def _with_the_whole_core(evidence: Evidence) -> float | None:
    """The rate if the server had all of its core, or of its share, at its CPU time per request; None if unknown.

    The least is taken of all repetitions of the steps at the knee and beyond, for other work makes a request dearer.
    None, too, if the rate is too far above what was measured.
    """
    rates = [
        (evidence.processors or 1.0) / own.minimum
        for step in evidence.steps
        if step.offered_requests_per_second >= evidence.knee.low
        and (own := step.server_cpu_seconds_per_request) is not None
        and own.minimum > 0
    ]
    whole = max(rates, default=None)
    too_far = whole is not None and DEARER_MAX * whole > plausibility.LIMIT_OVER_HIGHEST_MAX * _highest(evidence)
    return None if too_far else whole


def _interval(
    evidence: Evidence, largest: float, line_limit: float | None, *, line_ends_it: bool
) -> tuple[float, float | None, list[str]]:
    """The ends of the capacity's interval with the reasons. Where the line's limit is known, neither is above it."""
    if line_ends_it:
        because = ["computed from the line's rate and the log's transfer sizes, not measured"]
        lowest = evidence.knee.low
        if lowest < largest:
            because.append(f"the server may reach its own limit at {format.rate(lowest)}")
        return min(lowest, largest), largest, because
    low, high, because = _measured_interval(evidence)
    if line_limit is None or (high is not None and high <= line_limit):
        return low, high, because
    return low, line_limit, [*because, f"the {LINE} carries {format.rate(line_limit)} at most"]


def _measured_interval(evidence: Evidence) -> tuple[float, float | None, list[str]]:
    knee = evidence.knee
    because = []
    if len(knee.per_repetition) < 2:
        because.append("one repetition: its spread is not known")
    else:
        lowest, highest = min(knee.per_repetition), max(knee.per_repetition)
        because.append(
            f"{len(knee.per_repetition)} repetitions found {format.number(lowest)} to {format.number(highest)}"
        )
    speeds = [step.server_core_speed for step in evidence.steps if step.server_core_speed is not None]
    if speeds:
        slowest, fastest = min(each.minimum for each in speeds), max(each.maximum for each in speeds)
        if fastest > SPEED_RANGE_SAID * slowest:
            because.append(
                f"by CPU time per request, the server's core had {slowest:.2f} to {fastest:.2f} times its usual speed"
            )
    spread = max(knee.per_repetition) - min(knee.per_repetition)
    disturbed = _disturbance(evidence)
    if knee.reason == "generator" and not knee.is_lower_bound:
        upper = "; what was left of the server's core is the upper end" if disturbed is None else ""
        because.append(f"the load generator reached its own limit{upper}")
    elif knee.high - knee.low > spread * (1 + SAME_LIMIT):
        because.append("loads between two steps were not measured")
    if knee.reason == "throughput" and knee.low < min(knee.per_repetition) * (1 - SAME_LIMIT):
        because.append(f"overloaded, the server delivers less: {format.rate(knee.low)}")
    if knee.is_lower_bound:
        return knee.low, None, because + ([disturbed] if disturbed is not None else [])
    if disturbed is None:
        return knee.low, knee.high, because
    whole = _with_the_whole_core(evidence)
    if whole is None:
        return knee.low, None, [*because, disturbed]
    because.append(
        f"{disturbed}; without it the server would come to {format.number(whole)}, at the least CPU time per request "
        f"that was measured, and to {format.percent(DEARER_MAX - 1)} more if other work made requests that much dearer"
    )
    return knee.low, max(knee.high, DEARER_MAX * whole), because


def _resources(evidence: Evidence, limits: dict[str, float], rate: float) -> list[Resource]:
    return [
        _server_cpu(evidence, limits.get(CPU), rate),
        _access_line(evidence.line, limits.get(LINE), rate),
        _helpers(evidence.helpers, limits.get(HELPERS), rate),
    ]


def _server_cpu(evidence: Evidence, limit: float | None, rate: float) -> Resource:
    utilisation, said = _interpolated_busy(evidence.steps, rate, evidence.processors)
    if limit is None:
        said += "; its limit is unknown: the measurement ended before the server reached it"
    elif evidence.knee.is_lower_bound:
        said += "; its limit comes from the model: the measurement ended before the server reached it"
    return Resource(name=CPU, limit_requests_per_second=limit, utilisation=utilisation, evidence=said)


def _interpolated_busy(steps: Sequence[Step], rate: float, processors: float | None) -> tuple[float | None, str]:
    known = [
        (step.offered_requests_per_second, busy) for step in steps if (busy := _busy(step, processors)) is not None
    ]
    if not known:
        return None, "unavailable: the server's processes are not on this machine"
    offered, fractions = zip(*sorted(known), strict=True)
    # Below the lowest step, utilisation is proportional to the rate.
    utilisation = float(np.interp(rate, [0.0, *offered], [0.0, *fractions]))
    of = (
        "the server's core" if processors is None else f"the {format.percent(processors)} of a core that the server has"
    )
    return utilisation, f"measured: busy share of {of}, interpolated between steps"


def _busy(step: Step, processors: float | None) -> float | None:
    """The utilisation of the server's core, or of its share of one."""
    own = step.server_cpu_fraction
    found = own if processors is not None else step.server_core_busy_fraction or own
    return None if found is None else found.median / (processors or 1.0)


def _access_line(line: Line | None, limit: float | None, rate: float) -> Resource:
    return Resource(
        name=LINE,
        limit_requests_per_second=limit,
        utilisation=None if line is None else line.utilisation(rate),
        evidence="not asked for: give --access-line, for example 100Mbit/s"
        if line is None
        else "computed: M/G/1 processor sharing of the log's transfer sizes, 95 % of them within the target; "
        "TCP and IP headers not counted",
    )


def _helpers(helpers: Helpers | None, limit: float | None, rate: float) -> Resource:
    if helpers is None:
        said = "this server has no helpers, or does not report their busy time"
        return Resource(name=HELPERS, limit_requests_per_second=None, utilisation=None, evidence=said)
    return Resource(
        name=HELPERS,
        limit_requests_per_second=limit,
        utilisation=helpers.utilisation(rate),
        evidence=f"measured: busy time reported by {helpers.count} helpers over all requests of the rising load"
        + ("" if limit is not None else "; used too little to tell where they would be the limit"),
    )


def _bottleneck(
    evidence: Evidence, limits: dict[str, float], resources: Sequence[Resource], line_ends_it: bool
) -> tuple[str | None, str]:
    """The bottleneck with the evidence, or None with the reason."""
    used = {resource.name: resource.utilisation for resource in resources}
    if line_ends_it:
        return LINE, next(resource.evidence for resource in resources if resource.name == LINE)
    knee = evidence.knee
    if knee.is_lower_bound:
        if knee.reason == "generator":
            cure = "give the generator cores of its own, or a second machine"
        else:
            cure = "assess on a machine where the server can be brought to its limit"
        return None, f"{REASONS[knee.reason]}; {cure}"
    disturbed = _disturbance(evidence)
    if disturbed is not None:
        return None, f"{disturbed}, so that the server's own limit was not seen; {QUIET}"
    computed = min(limits, key=lambda name: limits[name])
    if knee.reason == "generator" and used[CPU] is not None:
        return (
            CPU,
            f"when {REASONS[knee.reason]}, the server's core was {format.percent(used[CPU])} busy already",
        )
    full = _full_at_the_knee(evidence)
    if full is not None:
        use, value = full
        name = NAMES.get(use.name, use.name)
        if computed not in (CPU, name):
            return None, (
                f"at the knee the {name} was full, but by its own limit the {computed} would be first; "
                "look at both in the report, and raise one of them"
            )
        said = f"{REASONS[knee.reason]} while the {name} was full: {written(use, value)}"
        return _if_used(name, used.get(name), said if use.unit == "share" else f"{said} {use.unit}")
    busy = _busiest_at_the_knee(evidence)
    if busy is None:
        return None, (
            f"{REASONS[knee.reason]}, and the server's use of its machine could not be read; assess where it runs"
        )
    if computed == CPU and busy >= CPU_SATURATED_FRACTION:
        return _if_used(CPU, used[CPU], f"{REASONS[knee.reason]} with the server's core {format.percent(busy)} busy")
    return None, (
        f"{REASONS[knee.reason]} with the server's core {format.percent(busy)} busy, and nothing else that was looked "
        "at was full; look for a limit in the server: workers, connections, locks, its accept queue"
    )


def _if_used(name: str, utilisation: float | None, said: str) -> tuple[str | None, str]:
    if utilisation is not None and utilisation < BOTTLENECK_UTILISATION_MIN:
        return None, f"the {name} seemed full, but it was only {format.percent(utilisation)} used; {QUIET}"
    return name, said


def _full_at_the_knee(evidence: Evidence) -> tuple[Use, float | None] | None:
    """The resource saturated around the knee (causes before effects), with its usage."""
    if evidence.saturation is None:
        return None
    around = _around_the_knee(evidence, evidence.saturation.rates)
    uses = evidence.saturation.uses
    return next(((use, use.values[place]) for use in uses for place in around if use.is_saturated(place)), None)


def _busiest_at_the_knee(evidence: Evidence) -> float | None:
    steps = sorted(evidence.steps, key=lambda step: step.offered_requests_per_second)
    around = _around_the_knee(evidence, [step.offered_requests_per_second for step in steps])
    known = [busy for place in around if (busy := _busy(steps[place], evidence.processors)) is not None]
    return max(known, default=None)


def _around_the_knee(evidence: Evidence, rates: Sequence[float]) -> range:
    """The indices of the last load below the knee and the first beyond it, among rising rates.

    Both, for an overloaded server may use less of what it lacks, while the queue before it is full.
    """
    low = evidence.knee.low
    beyond = [
        step.offered_requests_per_second
        for step in evidence.steps
        if not step.within_target and step.offered_requests_per_second > low
    ]
    first = min(beyond, default=low * (1 + SAME_LIMIT))
    place = next((place for place, rate in enumerate(rates) if rate >= first), len(rates) - 1)
    return range(max(0, place - 1), place + 1)


def _doublings(
    limits: dict[str, float], ranked: Sequence[str], kept_up: float, highest: float
) -> tuple[list[Doubling], list[Withheld]]:
    """The gain from doubling each resource, unless it is far above the measured range."""
    # If the server's own limit is unknown, nothing beyond its observed throughput is predicted.
    known, now = {CPU: kept_up, **limits}, min(limits.values())
    found, withheld = [], []
    for name in ranked:
        doubled = min(2 * limit if other == name else limit for other, limit in known.items())
        if doubled > plausibility.LIMIT_OVER_HIGHEST_MAX * highest:
            withheld.append(plausibility.beyond(f"what twice as much {name} gives", highest))
            continue
        gain = doubled / now - 1.0 if now > 0 else 0.0
        found.append(Doubling(resource=name, requests_per_second=doubled, gain_fraction=gain))
    return found, withheld


def _sentences(answer: Answer, evidence: Evidence) -> list[str]:
    target = f"{evidence.target_p95_seconds * 1000:g} ms"
    if answer.largest_rate_requests_per_second == 0:
        if answer.bottleneck == LINE:
            return [f"No rate keeps the p95 within {target}: the {LINE} alone takes longer than that."]
        what = "requests from failing" if evidence.knee.reason == "errors" else f"the p95 within {target}"
        # Without the other work the server might.
        keeps = "No rate that was measured kept" if answer.is_lower_bound else "No rate keeps"
        return [f"{keeps} {what}: {answer.bottleneck_because}."]
    at_least = "at least " if answer.is_lower_bound else ""
    sentences = [
        f"This site can take {at_least}{format.rate(answer.largest_rate_requests_per_second)} on this machine "
        f"with the p95 time to first byte within {target}{_headroom(answer)}."
    ]
    if answer.requests_fraction is not None:
        of_bytes = f" and {format.percent(answer.bytes_fraction)} of its bytes" if answer.bytes_fraction else ""
        sentences.append(
            f"It is about {format.percent(answer.requests_fraction)} of the log's requests{of_bytes}: those that a "
            "static copy of the site answers."
        )
    if answer.is_lower_bound and answer.bottleneck is None:
        sentences.append(f"This is a lower bound, and the bottleneck is unknown: {answer.bottleneck_because}.")
    elif answer.is_lower_bound:
        sentences.append(f"This is a lower bound: {answer.lower_bound_because}.")
    elif answer.bottleneck is None:
        sentences.append(f"The bottleneck is unknown: {answer.bottleneck_because}.")
    highest = answer.high_requests_per_second
    if answer.is_lower_bound and highest is not None:
        line_limit = next(each.limit_requests_per_second for each in answer.resources if each.name == LINE)
        sentences.append(
            f"The {LINE} carries {format.rate(line_limit)} at most."
            if highest == line_limit
            else f"Without the other work it would come to {format.rate(highest)} at most, by the CPU time per request "
            "that was measured."
        )
    if answer.bottleneck is not None:
        sentences.append(f"The {answer.bottleneck} is the bottleneck{_next(answer)}.")
    sentences += [
        f"Twice as much {doubling.resource} gives {format.rate(doubling.requests_per_second)} "
        f"({doubling.gain_fraction:+.0%})."
        for doubling in answer.doubling
    ]
    return sentences


def _headroom(answer: Answer) -> str:
    if answer.headroom_over_log_peak is None:
        return ""
    peak = format.rate(answer.log_peak_requests_per_second)
    return f": {format.number(answer.headroom_over_log_peak)} times the log's busiest minute ({peak})"


def _next(answer: Answer) -> str:
    if answer.next_bottleneck is None:
        return ""
    limit = next(
        resource.limit_requests_per_second for resource in answer.resources if resource.name == answer.next_bottleneck
    )
    return f"; next is the {answer.next_bottleneck}, at {format.rate(limit)}"
