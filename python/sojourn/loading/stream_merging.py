"""Merges runs of film viewers from several machines: adds streams and packets, merges the histograms of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

import numpy as np

from sojourn.engine.results import (
    BitRates,
    Deliveries,
    Packets,
    Starvation,
    StreamFigures,
    StreamGenerator,
    Streaming,
)
from sojourn.loading.figures import Histograms, known_most, most, summary, total, total_if_known
from sojourn.loading.record import StreamsRecord, StreamsStep
from sojourn.loading.result import Column

P = TypeVar("P", Packets, Deliveries)

_TIMES = ("setup_time", "time_to_first_packet", "behind", "jitter")
_TIMES_OF_HLS = ("segment_time", "startup_time")
_WORST = ("behind_p50_seconds", "behind_p99_seconds", "generator_cpu_fraction")
"""Columns of the timeline that cannot be added: the worst machine's are kept."""
_CLOCKS = ("time_seconds", "length_seconds", "unix_seconds")


def figures(records: Sequence[StreamsRecord], latencies: Histograms, rates: Sequence[float]) -> dict[str, object]:
    """The combined figures of all machines, in the fields of one machine's record.

    Args:
        records: of the machines.
        latencies: their merged histograms by tag.
        rates: the bit rate of every stream that played for long enough.
    """
    by_hls = records[0].streaming.segments is not None
    times = (*_TIMES, *_TIMES_OF_HLS) if by_hls else _TIMES
    return {
        "films": max(record.films for record in records),
        "ramp_seconds": max(record.ramp_seconds for record in records),
        "bytes_per_second": total_if_known(records, "bytes_per_second"),
        "streaming": _streaming([record.streaming for record in records], rates),
        **{f"{tag}_seconds": summary(latencies[tag]) for tag in times if tag in latencies},
        "generator": _generator([record.generator for record in records], latencies),
        "steps": [_step([step for step in same if step], latencies) for same in zip_longest(*_steps(records))],
    }


def timeline(timelines: Sequence[Mapping[str, Column]], started_at: float) -> dict[str, Column]:
    """The rows that all machines have: sums, and the worst machine's quantiles."""
    known = [each for each in timelines if each]
    if not known:
        return {}
    rows = min(len(each["time_seconds"]) for each in known)
    times = known[0]["time_seconds"][:rows]
    columns = {
        "time_seconds": times,
        "length_seconds": known[0]["length_seconds"][:rows],
        "unix_seconds": started_at + times,
    }
    for name in known[0]:
        if name not in _CLOCKS:
            same = [each[name][:rows] for each in known if name in each]
            columns[name] = np.fmax.reduce(same) if name in _WORST else np.nansum(same, axis=0)
    return columns


def _steps(records: Sequence[StreamsRecord]) -> list[list[StreamsStep]]:
    return [record.steps for record in records]


def _streaming(parts: Sequence[Streaming], rates: Sequence[float]) -> Streaming:
    starvation = [part.starvation for part in parts]
    return Streaming(
        streams=_streams([part.streams for part in parts]),
        starvation=Starvation(
            streams=int(total(starvation, "streams")),
            count=int(total(starvation, "count")),
            seconds=total(starvation, "seconds"),
        ),
        bit_rate=bit_rates(rates),
        packets=_pieces([part.packets for part in parts if part.packets], Packets),
        segments=_pieces([part.segments for part in parts if part.segments], Deliveries),
    )


def _streams(parts: Sequence[StreamFigures]) -> StreamFigures:
    added = {
        name: total(parts, name)
        for name, field in StreamFigures.model_fields.items()
        if field.annotation in (int, float)
    }
    judged = added["judged"]
    return StreamFigures.model_validate(
        {
            **added,
            "conforming_fraction": added["conforming"] / judged if judged else None,
            "faults": _added(parts, lambda part: part.faults),
            "refused_by_status": _added(parts, lambda part: part.refused_by_status),
            "failures_by_cause": _added(parts, lambda part: part.failures_by_cause),
        }
    )


def _added(parts: Sequence[StreamFigures], of: Callable[[StreamFigures], Mapping[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(of(part))
    return dict(counts)


def _pieces(parts: Sequence[P], kind: type[P]) -> P | None:
    if not parts:
        return None
    counts = {name: total(parts, name) for name, field in kind.model_fields.items() if field.annotation is int}
    expected, received = counts["expected"], counts["received"]
    return kind.model_validate(
        {
            **counts,
            "lost_fraction": counts["lost"] / expected if expected else None,
            "late_fraction": counts["late"] / received if received else None,
            "void_fraction": counts["void"] / received if received else None,
        }
    )


def bit_rates(rates: Sequence[float]) -> BitRates | None:
    """The figures of the streams' bit rates, as the engine computes them; None without streams."""
    if not rates:
        return None
    ascending = sorted(rates)
    return BitRates(
        streams=len(rates),
        mean_bits_per_second=sum(rates) / len(rates),
        min_bits_per_second=ascending[0],
        p50_bits_per_second=ascending[(len(rates) - 1) // 2],
        max_bits_per_second=ascending[-1],
    )


def _generator(each: Sequence[StreamGenerator], latencies: Histograms) -> StreamGenerator:
    """The busiest machine's figures, because the load is only as good as its worst part."""
    reasons = list(dict.fromkeys(reason for one in each for reason in one.reasons))
    lag = latencies.get("receive_lag")
    return StreamGenerator(
        cpu_fraction=most([one.cpu_fraction for one in each]),
        cpu_seconds_per_stream_second=most([one.cpu_seconds_per_stream_second for one in each]),
        core_wait_fraction=known_most([one.core_wait_fraction for one in each]),
        core_steal_fraction=known_most([one.core_steal_fraction for one in each]),
        limited=any(one.limited for one in each),
        limited_because="; ".join(dict.fromkeys(one.limited_because for one in each if one.limited_because)) or None,
        reasons=reasons,
        receive_lag_seconds=each[0].receive_lag_seconds if lag is None else summary(lag),
        receive_lag_limit_seconds=max(one.receive_lag_limit_seconds for one in each),
        arrival_clock="; ".join(dict.fromkeys(one.arrival_clock for one in each)),
        iterations_per_second=most([one.iterations_per_second for one in each]),
        descriptors=min(one.descriptors for one in each),
    )


def _step(steps: Sequence[StreamsStep], latencies: Histograms) -> StreamsStep:
    added = ("streams_playing_mean", "bytes_per_second", "packets_per_second")
    return StreamsStep.model_validate(
        {
            "start_seconds": min(step.start_seconds for step in steps),
            "clients": int(total(steps, "clients")),
            "duration_seconds": max(step.duration_seconds for step in steps),
            "stream_seconds": total(steps, "stream_seconds"),
            **{name: total_if_known(steps, name) for name in added},
            "generator": _generator([step.generator for step in steps], latencies),
        }
    )
