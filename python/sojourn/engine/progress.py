"""How a run goes: the lines that the engine says with `--progress`, about one a second."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from sojourn.engine.results import LoadProgress, StreamProgress


class Advance(BaseModel):
    """How much of a run is over, and what others have added to the engine's line."""

    model_config = ConfigDict(extra="allow", frozen=True)

    progress: float
    host: str | None = None
    """Of several machines that make a load together, the one that says it."""
    probe: Mapping[str, float] = Field(default_factory=dict)
    """What a probed server used in the last second, by counter."""


class RequestsAdvance(LoadProgress, Advance):
    """Of a load of requests."""


class StreamsAdvance(StreamProgress, Advance):
    """Of a load of viewers."""


ProgressLine = Advance | RequestsAdvance | StreamsAdvance


def parse(line: str) -> ProgressLine:
    """The line of whatever command said it."""
    if '"streams_playing"' in line:
        return StreamsAdvance.model_validate_json(line)
    if '"requests_per_second"' in line:
        return RequestsAdvance.model_validate_json(line)
    return Advance.model_validate_json(line)
