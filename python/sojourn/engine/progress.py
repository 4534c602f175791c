"""Progress of a run: the lines that the engine prints with `--progress`, about one per second."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from sojourn.engine.results import LoadProgress, StreamProgress


class Advance(BaseModel):
    """The progress of a run, with additions to the engine's line."""

    model_config = ConfigDict(extra="allow", frozen=True)

    progress: float
    host: str | None = None
    """The machine that reports, if several generate the load."""
    probe: Mapping[str, float] = Field(default_factory=dict)
    """A probed server's usage in the last second, by counter."""


class RequestsAdvance(LoadProgress, Advance):
    """The progress of a run of requests."""


class StreamsAdvance(StreamProgress, Advance):
    """The progress of a run of viewers."""


ProgressLine = Advance | RequestsAdvance | StreamsAdvance


def parse(line: str) -> ProgressLine:
    """Parses a progress line of any command."""
    if '"streams_playing"' in line:
        return StreamsAdvance.model_validate_json(line)
    if '"requests_per_second"' in line:
        return RequestsAdvance.model_validate_json(line)
    return Advance.model_validate_json(line)
