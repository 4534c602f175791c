"""Formats figures for people: `12,300 requests/s`, `3.4 ms`, `1.2 MiB`, `+3.1 %`.

Report and terminal use the same functions, so that a figure reads the same everywhere. Only this module rounds; exact
figures are in `summary.json`. `None` becomes `NOT_MEASURED`, never a zero.
"""

from __future__ import annotations

import math

NOT_MEASURED = "–"

_DIGITS_NEAR_ALL = 6
"""The most digits of a percentage that would be rounded to 100 %."""
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_BITS_PER_SECOND = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


def number(value: float | None, digits: int = 3) -> str:
    """A number of that many significant digits, thousands separated, never in scientific notation."""
    if value is None or math.isnan(value):
        return NOT_MEASURED
    rounded = _round(value, digits)
    if rounded == 0 or math.isinf(rounded):
        return "0" if rounded == 0 else "∞"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float | None) -> str:
    """A count, unrounded."""
    return NOT_MEASURED if value is None else f"{round(value):,}"


def rate(value: float | None, digits: int = 3) -> str:
    return NOT_MEASURED if value is None else f"{number(value, digits)} requests/s"


def seconds(value: float | None) -> str:
    """A time of at most a few minutes, in a suitable unit."""
    return _with_unit(value, _SECONDS)


def duration(value: float) -> str:
    """A long time in minutes and seconds, or hours and minutes."""
    if value < 120:
        return seconds(value)
    minutes, rest = divmod(round(value), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


def about(seconds_expected: float) -> str:
    """A time that is only expected: in tens of seconds, or in minutes."""
    if seconds_expected < 90:
        return f"{max(10, 10 * round(seconds_expected / 10))} s"
    return f"{round(seconds_expected / 60)} min"


def size(value: float | None) -> str:
    """Bytes in powers of 1024, such as `1.2 MiB`."""
    return _with_unit(value, _BYTES)


def bandwidth(value: float | None) -> str:
    """Bits per second in powers of 1000, such as `100 Mbit/s`."""
    return _with_unit(value, _BITS_PER_SECOND)


def percent(value: float | None) -> str:
    """A fraction as a percentage; what is not all is not 100 %, down to a ten-thousandth of a percent."""
    if value is None:
        return NOT_MEASURED
    digits = 3 if abs(value) >= 1 else 2
    while 0.99 < abs(value) < 1 and digits < _DIGITS_NEAR_ALL and abs(_round(value * 100, digits)) >= 100:
        digits += 1
    return f"{number(value * 100, digits)} %"


def error(value: float | None) -> str:
    """A relative error as a signed percentage."""
    if value is None:
        return NOT_MEASURED
    text = f"{value * 100:+.1f} %" if abs(value) < 9.995 else f"{value * 100:+,.0f} %"
    return text.replace("-", "−")


def factor(value: float | None) -> str:
    """A ratio such as `2.1×`."""
    return NOT_MEASURED if value is None else f"{number(value)}×"


def _with_unit(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    if value is None or math.isnan(value):
        return NOT_MEASURED
    if value == 0:
        return f"0 {units[0][1] if units is _SECONDS else units[-1][1]}"
    # Rounded first, so that 999.7 µs becomes 1 ms and not 1,000 µs.
    scale, unit = next((row for row in units if abs(_round(value / row[0], 3)) >= 1), units[-1])
    return f"{number(value / scale)} {unit}"


def _round(value: float, digits: int) -> float:
    if value == 0 or math.isinf(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
