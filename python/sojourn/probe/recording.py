"""Samples of counters over time in the engine's format: a header with the counters' table, then a row per sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sojourn.engine.results import Counter, Machine, ProbeClocks, ProbeHeader, ProbeRow, Unavailable
from sojourn.queueing.arrays import Array


@dataclass
class Recording:
    """The samples so far. A missing value is NaN, with the last reason in `missing`."""

    version: str
    machine: Machine
    """The machine and its settings; `boot_id` identifies it."""
    clocks: ProbeClocks
    """The clocks of the two times of a row: one is comparable between machines, the other never steps."""
    pids: list[int]
    counters: list[Counter]
    unavailable: dict[str, str]
    """The reason for each counter whose source was refused at the start."""
    refused: list[Counter] = field(default_factory=list)
    unix_seconds: list[float] = field(default_factory=list)
    time_seconds: list[float] = field(default_factory=list)
    sampling_seconds: list[float] = field(default_factory=list)
    """How long each sample took."""
    rows: list[list[float]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, header: ProbeHeader) -> Self:
        """Starts a recording from the engine's header line."""
        return cls(
            version=header.version,
            machine=header.machine,
            clocks=header.clocks,
            pids=header.pids,
            counters=header.columns,
            unavailable={each.name: each.because for each in header.unavailable},
            refused=[Counter.model_validate(each.model_dump(exclude={"because"})) for each in header.unavailable],
        )

    def add(self, line: ProbeRow) -> None:
        """Adds one row of the engine's output."""
        self.unix_seconds.append(line.unix_seconds)
        self.time_seconds.append(line.time_seconds)
        self.sampling_seconds.append(line.sampling_seconds)
        row = []
        for counter, value in zip(self.counters, line.values, strict=True):
            if isinstance(value, Unavailable):
                self.missing[counter.name] = value.unavailable
                row.append(math.nan)
            else:
                row.append(value)
        self.rows.append(row)

    def values(self, name: str) -> Array:
        """The samples of one counter in its unit; NaN where a value is missing.

        Raises `KeyError` for a counter that the recording does not have.
        """
        place = next((index for index, counter in enumerate(self.counters) if counter.name == name), None)
        if place is None:
            raise KeyError(name)
        return np.array([row[place] for row in self.rows])

    def columns(self) -> dict[str, Sequence[float] | Array]:
        """Time and every counter by name, as columns for a data frame."""
        columns: dict[str, Sequence[float] | Array] = {
            "unix_seconds": self.unix_seconds,
            "time_seconds": self.time_seconds,
            "sampling_seconds": self.sampling_seconds,
        }
        return columns | {counter.name: self.values(counter.name) for counter in self.counters}
