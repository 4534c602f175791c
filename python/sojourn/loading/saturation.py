"""Finds the first saturated resource of a server, the bottleneck, by declared criteria.

Each resource has a figure per load and a limit; at or above the limit it is saturated. The bottleneck is the resource
that saturates at the lowest load. If several do at that load, causes come before effects: a busy processor fills
accept queues, and a slow disk keeps workers waiting, not the other way round. If none does, no bottleneck is named.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sojourn.engine.results import ServerUse
from sojourn.loading.record import AnyStep, Saturation, Step, Use
from sojourn.probe.totals import CounterUse
from sojourn.text import format

CPU_MAX = 0.9
"""The limit of CPU usage, relative to the server's available cores or to one core for its busiest thread."""
MEMORY_PRESSURE_MAX = 0.1
MAJOR_FAULTS_PER_ANSWER_MAX = 0.1
BLOCKED_THREADS_MAX = 0.9
"""The limit of threads waiting for a disk, on average: above it the disk nearly always has work."""
LINE_MAX = 0.9
ACCEPT_QUEUE_MIN = 1.0
HELPERS_MAX = 0.9


@dataclass(frozen=True)
class Setting:
    """Facts about the server besides its counters."""

    cores: float | None = None
    """The cores available to the server, or its share of one."""
    line_bits_per_second: float | None = None
    helpers: int | None = None
    helper_seconds_per_request: float | None = None


@dataclass(frozen=True)
class Resource:
    """A resource: its usage in a step, and the limit at which it is saturated."""

    name: str
    limit: float
    criterion: str
    unit: str
    """`share`, or the unit of the count."""
    figure: Callable[[AnyStep, Setting], float | None]


def find(points: Sequence[tuple[float, str, Sequence[AnyStep]]], setting: Setting) -> Saturation | None:
    """Finds the resource that saturated first.

    Args:
        points: the load as a number and in words, and the steps that were measured at it.
        setting: what is known of the server.

    Returns:
        The finding; None where the server was not looked at.
    """
    ordered = sorted(points, key=lambda point: point[0])
    if not any(_is_measured(step) for _, _, steps in ordered for step in steps):
        return None
    uses = [
        Use(
            name=each.name,
            criterion=each.criterion,
            limit=each.limit,
            unit=each.unit,
            values=[_median([each.figure(step, setting) for step in steps]) for _, _, steps in ordered],
        )
        for each in RESOURCES
    ]
    loads, rates = [said for _, said, _ in ordered], [rate for rate, _, _ in ordered]
    for place, load in enumerate(loads):
        full = [use for use in uses if use.is_saturated(place)]
        if full:
            sentence = _sentence(full[0], full[1:], place, load, ordered[place][2])
            return Saturation(loads=loads, uses=uses, first=full[0].name, at=load, sentence=sentence, rates=rates)
    return Saturation(loads=loads, uses=uses, first=None, at=None, sentence=_nothing(uses), rates=rates)


def written(use: Use, value: float | None) -> str:
    """Formats the figure with its unit, as in reports."""
    if value is None:
        return format.NOT_MEASURED
    return format.percent(value) if use.unit == "share" else format.number(value)


def _cpu(step: AnyStep, setting: Setting) -> float | None:
    busiest = _number(_counter(step, "busiest_thread_fraction").mean)
    used = _number(_counter(step, "cpu_seconds").per_second)
    shares = [busiest, used / setting.cores if used is not None and setting.cores else None]
    server = _server(step)
    seen = [_number(server.core_busy_fraction), _number(server.cpu_fraction)] if server else [None]
    if None not in seen and shares == [None, None]:
        # Without a probe: the server's own core, as far as the server used it.
        shares.append(min(value for value in seen if value is not None))
    if isinstance(step, Step) and step.server_saturated and (setting.cores or 1.0) >= 1.0:
        # Kernel threads that work for the load use a share of the core, too.
        shares.append(seen[0])
    known = [share for share in shares if share is not None]
    return max(known) if known else None


def _memory(step: AnyStep, setting: Setting) -> float | None:
    return _number(_counter(step, "memory_pressure_some_seconds").per_second)


def _faults(step: AnyStep, setting: Setting) -> float | None:
    faults, server = _number(_counter(step, "major_faults").total), _server(step)
    if faults is None and server is not None:
        faults = _number(server.major_faults)
    answered = _requests_per_second(step) * step.duration_seconds
    return faults / answered if faults is not None and answered > 0 else None


def _disk(step: AnyStep, setting: Setting) -> float | None:
    return _number(_counter(step, "blocked_threads").mean)


def _line(step: AnyStep, setting: Setting) -> float | None:
    if setting.line_bits_per_second is None or step.bytes_per_second is None:
        return None
    return float(8 * step.bytes_per_second / setting.line_bits_per_second)


def _accept_queue(step: AnyStep, setting: Setting) -> float | None:
    """The smallest number of waiting connections; an overflowed queue counts as never empty."""
    overflows = _number(_counter(step, "listen_overflows").total)
    if overflows is None and isinstance(step, Step):
        overflows = _number(step.tcp.listen_overflows)
    least = _number(_counter(step, "accept_queue").minimum)
    if overflows:
        return max(least or 0.0, ACCEPT_QUEUE_MIN)
    return least


def _helpers(step: AnyStep, setting: Setting) -> float | None:
    if not setting.helpers or setting.helper_seconds_per_request is None:
        return None
    return float(_requests_per_second(step) * setting.helper_seconds_per_request / setting.helpers)


RESOURCES = (
    Resource(
        "CPU", CPU_MAX, f"{format.percent(CPU_MAX)} of its cores, or of one core by its busiest thread", "share", _cpu
    ),
    Resource(
        "memory stalls",
        MEMORY_PRESSURE_MAX,
        f"some task waited for memory {format.percent(MEMORY_PRESSURE_MAX)} of the time",
        "share",
        _memory,
    ),
    Resource(
        "page faults",
        MAJOR_FAULTS_PER_ANSWER_MAX,
        f"{MAJOR_FAULTS_PER_ANSWER_MAX:g} faults per response that waited for a disk",
        "faults per response",
        _faults,
    ),
    Resource(
        "disk",
        BLOCKED_THREADS_MAX,
        f"{BLOCKED_THREADS_MAX:g} of its threads waited for a disk on average",
        "threads waiting on average",
        _disk,
    ),
    Resource("network", LINE_MAX, f"{format.percent(LINE_MAX)} of the line's bandwidth (--line)", "share", _line),
    Resource(
        "accept queue",
        ACCEPT_QUEUE_MIN,
        "never empty in any sample, or overflowed",
        "connections waiting at least",
        _accept_queue,
    ),
    Resource("helpers", HELPERS_MAX, f"busy {format.percent(HELPERS_MAX)} of the time", "share", _helpers),
)
"""The resources, causes before effects."""


def _sentence(first: Use, others: Sequence[Use], place: int, load: str, steps: Sequence[AnyStep]) -> str:
    said = f"{first.name}{_split(steps) if first.name == 'CPU' else ''} saturated first, at {load}: "
    said += f"{written(first, first.values[place])}{'' if first.unit == 'share' else ' ' + first.unit}"
    said += f" ({first.criterion})."
    if others:
        said += f" Also saturated at that load: {', '.join(use.name for use in others)}."
    return said


def _split(steps: Sequence[AnyStep]) -> str:
    user = _median([_number(step.probe.cpu_user_seconds_per_request) for step in steps if step.probe])
    system = _median([_number(step.probe.cpu_system_seconds_per_request) for step in steps if step.probe])
    if user is None or system is None:
        share = _median([_number(server.cpu_user_fraction) for step in steps if (server := _server(step))])
        if share is None:
            return ""
    else:
        share = user / (user + system)
    where = "user code" if share >= 0.5 else "the kernel"
    return f", {format.percent(max(share, 1 - share))} in {where},"


def _nothing(uses: Sequence[Use]) -> str:
    unknown = [use.name for use in uses if all(value is None for value in use.values)]
    said = "Not shown: no measured resource reached its limit."
    return f"{said} Not measured: {', '.join(unknown)}." if unknown else said


def _is_measured(step: AnyStep) -> bool:
    return step.probe is not None or _server(step) is not None


def _server(step: AnyStep) -> ServerUse | None:
    return step.server if isinstance(step, Step) else None


def _requests_per_second(step: AnyStep) -> float:
    return (step.requests_per_second or 0.0) if isinstance(step, Step) else 0.0


def _counter(step: AnyStep, name: str) -> CounterUse:
    return (step.probe.counters.get(name) if step.probe else None) or CounterUse()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
