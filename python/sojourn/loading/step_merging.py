"""A step of a load that several machines made, from the machines' records of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from sojourn.loading.figures import Histograms, Record, add, figures, total, total_if_known

_ADDED = (
    "sessions_started",
    "sessions_completed",
    "sessions_failed",
    "connections_opened",
    "reconnects",
)
_ADDED_IF_KNOWN = ("offered_requests_per_second", "clients", "connections_open_mean", "in_flight_mean")


def merged_steps(records: Sequence[Record], histograms: Sequence[Sequence[Histograms]]) -> list[dict[str, Any]]:
    """The steps in order; one that a machine did not reach is made of the others."""
    steps: list[dict[str, Any]] = []
    for same in zip_longest(*(record.get("steps", ()) for record in records)):
        place = len(steps)
        known = [step for step in same if step]
        parts = [each[place] for each in histograms if place < len(each)]
        steps.append(_step(known, add(parts)))
    return steps


def generators(each: Sequence[Record], reasons: Sequence[str], histograms: Histograms) -> dict[str, Any]:
    """The busiest machine's figures: the load is only as good as its worst part."""
    keys = (
        "cpu_fraction",
        "cpu_seconds_per_request",
        "core_wait_fraction",
        "core_steal_fraction",
        "timer_slack_seconds",
        "send_lag_limit_seconds",
        "turns_per_second",
    )
    return {
        **{key: _most(each, key) for key in keys},
        "limited": any(one["limited"] for one in each),
        "limited_because": "; ".join(reasons) or None,
        "reasons": [*reasons],
        "late_sends": total(each, "late_sends"),
        "send_lag_p99_seconds": histograms["send_lag"].quantile(0.99) if "send_lag" in histograms else None,
    }


def _most(each: Sequence[Record], key: str) -> Any:
    """The largest of the machines' figures; the reason where none has one."""
    values = [one.get(key) for one in each]
    known = [value for value in values if isinstance(value, int | float)]
    return max(known) if known else next((value for value in values if value is not None), None)


def _step(steps: Sequence[Record], histograms: Histograms) -> dict[str, Any]:
    seen = figures(steps, histograms)
    evidence = [step.get("steady_evidence") for step in steps]
    return {
        "start_seconds": min(step["start_seconds"] for step in steps),
        "ramp": any(step.get("ramp") for step in steps),
        **{key: total(steps, key) for key in _ADDED},
        **{key: total_if_known(steps, key) for key in _ADDED_IF_KNOWN},
        "rated": _rated([step["rated"] for step in steps if step.get("rated")]),
        "steady": all(step.get("steady") for step in steps),
        "steady_evidence": None if None in evidence else _added([each for each in evidence if each]),
        "little": _little(steps, "little", "clients"),
        "little_in_flight": _little(steps, "little_in_flight", "in_flight_mean"),
        **seen,
        "response_bytes_mean": _body_mean(steps),
        "generator": generators(
            [step["generator"] for step in steps],
            [reason for step in steps for reason in step["generator"].get("reasons", ())],
            histograms,
        ),
        "server": _server(steps, seen),
        "tcp": {key: _tcp(steps, key) for key in steps[0].get("tcp", {})},
    }


def _added(parts: Sequence[Record]) -> dict[str, Any]:
    return {key: sum(part[key] for part in parts) for key in parts[0]}


def _rated(parts: Sequence[Record]) -> dict[str, Any] | None:
    if not parts:
        return None
    return {**parts[0], **{key: sum(part[key] for part in parts) for key in ("clients", "conforming")}}


def _little(steps: Sequence[Record], law: str, side: str) -> dict[str, Any] | None:
    """Both sides of the law add up: X R of the whole is the sum of the machines' X R."""
    parts = [step[law] for step in steps if step.get(law)]
    if len(parts) < len(steps):
        return None
    sides = {key: sum(part[key] for part in parts) for key in (side, "accounted")}
    error = sides["accounted"] / sides[side] - 1 if sides[side] else None
    return {**sides, "relative_error": error}


def _body_mean(steps: Sequence[Record]) -> float | None:
    known = [step for step in steps if step.get("response_bytes_mean") is not None]
    answered = sum(step["requests"] for step in known)
    return sum(step["response_bytes_mean"] * step["requests"] for step in known) / answered if answered else None


def _server(steps: Sequence[Record], seen: Mapping[str, Any]) -> dict[str, Any] | None:
    """As the machine saw it that the server runs on; its CPU time is shared by everybody's answers."""
    found = next((step["server"] for step in steps if step.get("server")), None)
    if found is None:
        return None
    answered = (seen["requests_per_second"] or 0) * seen["duration_seconds"]
    seconds = found.get("cpu_seconds")
    known = isinstance(seconds, int | float) and answered > 0
    per_request = seconds / answered if known else found.get("cpu_seconds_per_request")
    return {**found, "cpu_seconds_per_request": per_request}


def _tcp(steps: Sequence[Record], key: str) -> Any:
    values = [step["tcp"][key] for step in steps if "tcp" in step]
    known = all(isinstance(value, int | float) for value in values)
    return sum(values) if known else next(value for value in values if not isinstance(value, int | float))
