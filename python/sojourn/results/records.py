"""Records that several kinds of result share: pydantic models with units in the names of their fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """The base of all records. Unknown fields are refused, so that a typo cannot hide a figure."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Spread(Record):
    """A figure over repetitions: its median, minimum and maximum."""

    median: float
    minimum: float
    maximum: float


class Interval(Record):
    """An estimate with its 95 % confidence interval."""

    estimate: float
    low: float
    high: float
