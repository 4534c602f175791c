"""Merges a step's records from several machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from sojourn.engine.results import (
    Generator,
    Little,
    LittleInFlight,
    Rated,
    ServerUse,
    SteadyEvidence,
    StepReport,
    TcpTrouble,
    Unavailable,
)
from sojourn.loading.figures import Histograms, add, figures, known_most, most, total, total_if_known
from sojourn.loading.record import RequestsRecord, Step

_ADDED = (
    "sessions_started",
    "sessions_completed",
    "sessions_failed",
    "connections_opened",
    "reconnects",
)
_SEVERAL = Unavailable(unavailable="the windows of several machines do not begin together")
_ADDED_IF_KNOWN = ("offered_requests_per_second", "clients", "connections_open_mean", "in_flight_mean")


def merged_steps(
    records: Sequence[RequestsRecord], histograms: Sequence[Sequence[Histograms]], *, reached_by_all: bool = False
) -> list[Step]:
    """The merged steps in order; a step that some machines did not reach is merged from the others, or left out."""
    steps: list[Step] = []
    together = zip if reached_by_all else zip_longest
    for same in together(*(record.steps for record in records)):
        place = len(steps)
        known = [step for step in same if step]
        parts = [each[place] for each in histograms if place < len(each)]
        steps.append(_step(known, add(parts)))
    return steps


def generators(each: Sequence[Generator], reasons: Sequence[str], histograms: Histograms) -> Generator:
    """The busiest machine's figures, because the load is only as good as its worst part."""
    return Generator(
        cpu_fraction=most([one.cpu_fraction for one in each]),
        cpu_seconds_per_request=most([one.cpu_seconds_per_request for one in each]),
        core_wait_fraction=known_most([one.core_wait_fraction for one in each]),
        core_steal_fraction=known_most([one.core_steal_fraction for one in each]),
        timer_slack_seconds=most([one.timer_slack_seconds for one in each]),
        real_time=all(one.real_time for one in each),
        send_lag_limit_seconds=most([one.send_lag_limit_seconds for one in each]),
        iterations_per_second=most([one.iterations_per_second for one in each]),
        limited=any(one.limited for one in each),
        limited_because="; ".join(reasons) or None,
        reasons=[*reasons],
        late_sends=int(total(each, "late_sends")),
        send_lag_p99_seconds=histograms["send_lag"].quantile(0.99) if "send_lag" in histograms else None,
    )


def _step(steps: Sequence[StepReport], histograms: Histograms) -> Step:
    seen = figures(steps, histograms)
    evidence = [step.steady_evidence for step in steps if step.steady_evidence]
    return Step.model_validate(
        {
            "start_seconds": min(step.start_seconds for step in steps),
            "ramp": any(step.ramp for step in steps),
            # A part beyond the server's capacity puts the whole beyond it.
            "limit": next((step.limit for step in steps if step.limit is not None), None),
            "server_saturated": any(step.server_saturated for step in steps),
            **{key: total(steps, key) for key in _ADDED},
            **{key: total_if_known(steps, key) for key in _ADDED_IF_KNOWN},
            "rated": _rated([step.rated for step in steps if step.rated]),
            "steady": all(step.steady for step in steps),
            "steady_evidence": _evidence(evidence) if len(evidence) == len(steps) else None,
            "little": _little(steps),
            "little_in_flight": _little_in_flight(steps),
            **seen,
            "response_bytes_mean": _body_mean(steps),
            "generator": generators(
                [step.generator for step in steps],
                [reason for step in steps for reason in step.generator.reasons],
                histograms,
            ),
            "server": _server(steps),
            "tcp": TcpTrouble(
                **{key: _tcp([getattr(step.tcp, key) for step in steps]) for key in TcpTrouble.model_fields}
            ),
            "undisturbed": steps[0].undisturbed if len(steps) == 1 else _SEVERAL,
        }
    )


def _evidence(parts: Sequence[SteadyEvidence]) -> SteadyEvidence:
    return SteadyEvidence(**{key: total(parts, key) for key in SteadyEvidence.model_fields})


def _rated(parts: Sequence[Rated]) -> Rated | None:
    if not parts:
        return None
    return parts[0].model_copy(update={key: int(total(parts, key)) for key in ("clients", "conforming")})


def _little(steps: Sequence[StepReport]) -> Little | None:
    """Both sides of Little's law add up: the total X R is the sum of the machines' X R."""
    parts = [step.little for step in steps if step.little]
    if len(parts) < len(steps):
        return None
    clients, accounted = int(total(parts, "clients")), total(parts, "accounted")
    return Little(clients=clients, accounted=accounted, relative_error=accounted / clients - 1)


def _little_in_flight(steps: Sequence[StepReport]) -> LittleInFlight | None:
    parts = [step.little_in_flight for step in steps if step.little_in_flight]
    if len(parts) < len(steps):
        return None
    mean, accounted = total(parts, "in_flight_mean"), total(parts, "accounted")
    return LittleInFlight(
        in_flight_mean=mean, accounted=accounted, relative_error=accounted / mean - 1 if mean else None
    )


def _body_mean(steps: Sequence[StepReport]) -> float | None:
    known = [(step.response_bytes_mean, step.requests) for step in steps if step.response_bytes_mean is not None]
    answered = sum(requests for _, requests in known)
    return sum(mean * requests for mean, requests in known) / answered if answered else None


def _server(steps: Sequence[StepReport]) -> ServerUse | None:
    """The usage seen by the machine that the server runs on, shared among all machines' responses."""
    found = next((step.server for step in steps if step.server), None)
    answered = sum((step.requests_per_second or 0.0) * step.duration_seconds for step in steps)
    if found is None or isinstance(found.cpu_seconds, Unavailable) or answered <= 0:
        return found
    return found.model_copy(update={"cpu_seconds_per_request": found.cpu_seconds / answered})


def _tcp(values: Sequence[int | Unavailable]) -> int | Unavailable:
    return next((value for value in values if isinstance(value, Unavailable)), None) or sum(
        value for value in values if not isinstance(value, Unavailable)
    )
