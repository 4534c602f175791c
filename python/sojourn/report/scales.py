"""The mathematics of axes: positions of values and ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Scale(Protocol):
    """Maps values to the unit interval and names its ticks."""

    @property
    def low(self) -> float:
        """The value at position 0."""

    @property
    def high(self) -> float:
        """The value at position 1."""

    def position(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""

    def ticks(self, about: int) -> list[float]:
        """About this many round values, all between the ends."""


@dataclass(frozen=True)
class Linear:
    """A linear scale; ticks of bytes are round numbers of KiB, MiB and so on."""

    low: float
    high: float
    thousand: float = 1000.0
    """The factor between neighbouring units."""

    def position(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def ticks(self, about: int) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten in the unit of the ticks."""
        wanted = (self.high - self.low) / max(1, about)
        unit = self.thousand ** max(0, math.floor(math.log(wanted, self.thousand)))
        step = unit * _round_step(wanted / unit)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


@dataclass(frozen=True)
class Logarithmic:
    """A logarithmic scale; ticks are powers of ten with values between, or powers of two for bytes."""

    low: float
    high: float
    base: int = 10

    def position(self, value: float) -> float:
        """See `Scale`; values that are not positive lie far below the low end."""
        return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else -1.0

    def ticks(self, about: int) -> list[float]:
        """All powers of the base, or every few."""
        powers = math.log(self.high / self.low, self.base)
        factors = _factors_of_ten(powers, about) if self.base == 10 else (1.0,)
        every = next((each for each in (1, 2, 5, 10) if powers <= about * each), 20)
        first, last = (math.floor(math.log(end, self.base)) for end in (self.low, self.high))
        values = [
            factor * float(self.base) ** power
            for power in range(first, last + 1)
            if power % every == 0
            for factor in factors
        ]
        return [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]


def linear(
    values: Iterable[float], low: float | None = 0.0, high: float | None = None, thousand: float = 1000.0
) -> Linear:
    """A linear scale for all values, with some space at each end that was not given."""
    held = list(values) or [0.0, 1.0]
    bottom = min(held) if low is None else low
    top = max(held) if high is None else high
    if top <= bottom:
        top = bottom + 1.0
    return Linear(bottom, top if high is not None else top + (top - bottom) * 0.06, thousand)


def logarithmic(values: Iterable[float], base: int = 10) -> Logarithmic:
    """A logarithmic scale for all positive values, with some space at both ends."""
    held = [value for value in values if value > 0] or [1.0, 10.0]
    low, high = min(held), max(held)
    air = max((high / low) ** 0.05, 1.2)
    return Logarithmic(low / air, high * air, base)


def _factors_of_ten(powers: float, about: int) -> tuple[float, ...]:
    """The ticks within a power of ten, as many as fit."""
    choices = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0))
    return next((each for each in choices if powers * len(each) <= about * 1.5), (1.0,))


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)
