"""Samples of counters over time, as the engine sends them: a header with the table's rows, then a row per sample."""

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
    """Samples so far. A value that was missing is NaN, with the last reason in `missing`."""

    version: str
    machine: Machine
    """Which machine it was and under which settings; `boot_id` tells it from others."""
    clocks: ProbeClocks
    """Which clock each of the two times is from: one can be compared between machines, the other never steps."""
    pids: list[int]
    counters: list[Counter]
    unavailable: dict[str, str]
    """By counter, why its source was refused at the start."""
    refused: list[Counter] = field(default_factory=list)
    unix_seconds: list[float] = field(default_factory=list)
    time_seconds: list[float] = field(default_factory=list)
    sampling_seconds: list[float] = field(default_factory=list)
    """How long each sample took to take."""
    rows: list[list[float]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, header: ProbeHeader) -> Self:
        """An empty recording from the engine's first line."""
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
        """Takes one of the engine's further lines."""
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
        """The samples of one counter, in its unit; NaN where there was none.

        Raises `KeyError` for a counter that the recording has not.
        """
        place = next((index for index, counter in enumerate(self.counters) if counter.name == name), None)
        if place is None:
            raise KeyError(name)
        return np.array([row[place] for row in self.rows])

    def columns(self) -> dict[str, Sequence[float] | Array]:
        """Time and every counter, by name: what data frames are made of."""
        columns: dict[str, Sequence[float] | Array] = {
            "unix_seconds": self.unix_seconds,
            "time_seconds": self.time_seconds,
            "sampling_seconds": self.sampling_seconds,
        }
        return columns | {counter.name: self.values(counter.name) for counter in self.counters}
