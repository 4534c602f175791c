"""Progress of a run: the lines that the engine prints with `--progress`, about one per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from sojourn.engine.results import LoadProgress, StreamProgress


class Advance(BaseModel):
    """The progress of a run, with additions to the engine's line."""

    model_config = ConfigDict(extra="allow", frozen=True)

    progress: float
    probe: Mapping[str, float] = Field(default_factory=dict)
    """A probed server's usage in the last second, by counter."""
    tiers: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """Each watched tier's usage in the last second, by counter."""


class RequestsAdvance(LoadProgress, Advance):
    """The progress of a run of requests."""


class StreamsAdvance(StreamProgress, Advance):
    """The progress of a run of viewers."""


ProgressLine = Advance | RequestsAdvance | StreamsAdvance


_SUMS_OF_REQUESTS = ("requests_per_second", "errors_per_second", "in_flight")
_SUMS_OF_STREAMS = (
    "streams_started",
    "streams_playing",
    "streams_conforming",
    "streams_refused",
    "streams_timed_out",
    "streams_failed",
    "bits_per_second",
)
_TIMES = ("p50", "p90", "p95", "p99", "p999", "max")


def together(machines: Sequence[ProgressLine]) -> ProgressLine:
    """Combines several machines: adds counts, and takes the worst machine's percentiles, which do not add up."""
    first = machines[0]
    same = [each for each in machines if isinstance(each, RequestsAdvance | StreamsAdvance)]
    if not isinstance(first, RequestsAdvance | StreamsAdvance):
        return first
    added: Sequence[str] = _SUMS_OF_REQUESTS
    times = "time_to_first_byte_intended_seconds"
    if isinstance(first, StreamsAdvance):
        added, times = _SUMS_OF_STREAMS, "behind_seconds"
    worst = {name: max(getattr(getattr(each, times), name) or 0.0 for each in same) for name in _TIMES}
    return first.model_copy(
        update={
            **{name: sum(getattr(each, name) for each in same) for name in added},
            times: getattr(first, times).model_copy(update=worst),
            "progress": min(each.progress for each in same),
            "generator_cpu_fraction": max(each.generator_cpu_fraction for each in same),
        }
    )


def parse(line: str) -> ProgressLine:
    """Parses a progress line of any command."""
    if '"streams_playing"' in line:
        return StreamsAdvance.model_validate_json(line)
    if '"requests_per_second"' in line:
        return RequestsAdvance.model_validate_json(line)
    return Advance.model_validate_json(line)
