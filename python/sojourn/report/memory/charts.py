"""The curves: bandwidth over the working set, a line per stride, and latency, with marks at the caches' sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sojourn.engine.results import Spread
from sojourn.memory.characterisation import Characterisation
from sojourn.memory.grid import KERNELS
from sojourn.report.chart import Axis, Chart, Guide, Line, Mark, Point, Series
from sojourn.report.scales import logarithmic
from sojourn.text import format

LINES_MAX = 6
"""The most lines in one plot that can be distinguished; the surface shows all strides."""

_STYLES: tuple[tuple[int, Mark, Line], ...] = (
    (1, "disc", "solid"),
    (2, "square", "solid"),
    (3, "triangle", "solid"),
    (4, "diamond", "solid"),
    (0, "down", "dashed"),
    (1, "square", "dotted"),
)


def curves(found: Characterisation) -> list[Chart]:
    """One chart per kernel, number of cores and huge-page setting."""
    charts = []
    for cores, huge_pages in found.conditions():
        for kernel in KERNELS:
            points = [
                each
                for each in found.points
                if (each.kernel, each.cores, each.huge_pages) == (kernel, cores, huge_pages)
            ]
            if not points:
                continue
            strides = spread_out(sorted({each.stride_words for each in points}))
            series = [
                _series(
                    f"stride {stride}",
                    index,
                    [(each.working_set_bytes, each.bytes_per_second) for each in points if each.stride_words == stride],
                    bandwidth,
                )
                for index, stride in enumerate(strides)
            ]
            charts.append(
                Chart(
                    f"plot-{kernel}-{cores}-{huge_pages}",
                    f"{kernel}: {KERNELS[kernel]} {condition(cores, huge_pages)}",
                    "Median of the repetitions, bars from the least to the most; strides in words of 8 bytes.",
                    _working_sets(found),
                    Axis("GB/s", logarithmic(_extent(series)), bandwidth),
                    series,
                    guides=_caches(found),
                )
            )
    return charts


def latencies(found: Characterisation) -> list[Chart]:
    """A chart of the time per dependent load, if latency was measured."""
    if not found.latencies:
        return []
    conditions = list(dict.fromkeys((each.cores, each.huge_pages) for each in found.latencies))
    series = [
        _series(
            condition(cores, huge_pages).strip("()"),
            index % len(_STYLES),
            [
                (each.working_set_bytes, each.seconds_per_load)
                for each in found.latencies
                if (each.cores, each.huge_pages) == (cores, huge_pages)
            ],
            format.seconds,
        )
        for index, (cores, huge_pages) in enumerate(conditions)
    ]
    return [
        Chart(
            "plot-latency",
            "Latency: loads that wait for the one before, lines in random order",
            "Median of the repetitions, bars from the least to the most.",
            _working_sets(found),
            Axis("time per load", logarithmic(_extent(series)), format.seconds),
            series,
            guides=_caches(found),
        )
    ]


def condition(cores: int, huge_pages: str) -> str:
    """Describes the number of cores and the huge-page setting."""
    return f"({cores} {'core' if cores == 1 else 'cores'}, huge pages {huge_pages})"


def bandwidth(bytes_per_second: float) -> str:
    """Bytes per second, in gigabytes of 10^9."""
    return format.number(bytes_per_second / 1e9)


def spread_out(values: list[int]) -> list[int]:
    """Chooses at most `LINES_MAX` values, including the first and the last."""
    if len(values) <= LINES_MAX:
        return values
    return [values[round(index * (len(values) - 1) / (LINES_MAX - 1))] for index in range(LINES_MAX)]


def _series(name: str, index: int, spreads: list[tuple[int, Spread]], write: Callable[[float], str]) -> Series:
    colour, mark, line = _STYLES[index]
    points = [
        Point(
            size,
            spread.median,
            f"{write(spread.median)} ({write(spread.min)} to {write(spread.max)}) at {format.size(size)}",
            spread.min,
            spread.max,
        )
        for size, spread in spreads
    ]
    return Series(name, colour, points, mark, line)


def _working_sets(found: Characterisation) -> Axis:
    return Axis("working set of each core", logarithmic(found.working_sets(), base=2), format.size)


def _extent(series: Iterable[Series]) -> list[float]:
    return [bound for each in series for point in each.points if point for bound in point.extent]


def _caches(found: Characterisation) -> list[Guide]:
    sizes = found.working_sets()
    return [
        Guide("x", cache.size_bytes, f"L{cache.level} {format.size(cache.size_bytes)}")
        for cache in found.data_caches()
        if sizes[0] <= cache.size_bytes <= sizes[-1]
    ]
