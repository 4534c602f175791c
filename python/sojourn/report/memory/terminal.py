"""Prints a characterisation: a table per kernel, with working sets as rows and strides as columns."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.memory.characterisation import Characterisation
from sojourn.memory.grid import KERNELS
from sojourn.report.memory.charts import bandwidth, condition
from sojourn.report.terminal import table
from sojourn.text import format

COLUMNS_MAX = 9
"""The most strides that fit into 80 columns; the page and the JSON have all."""


def print_characterisation(found: Characterisation, console: Console) -> None:
    """Prints medians in GB/s, then latencies, caches and warnings."""
    for cores, huge_pages in found.conditions():
        for kernel in KERNELS:
            _print_kernel(found, kernel, cores, huge_pages, console)
        _print_latencies(found, cores, huge_pages, console)
    caches = found.data_caches()
    if caches:
        console.print("caches: " + ", ".join(f"L{each.level} {format.size(each.size_bytes)}" for each in caches))
    if found.disturbed:
        console.print(Text(f"warning: {found.disturbed:,} measurements were disturbed and kept", style="yellow"))
    if not found.complete:
        console.print(Text("INCOMPLETE: interrupted", style="bold red"))


def _print_kernel(found: Characterisation, kernel: str, cores: int, huge_pages: str, console: Console) -> None:
    points = {
        (each.working_set_bytes, each.stride_words): each.bytes_per_second.median
        for each in found.points
        if (each.kernel, each.cores, each.huge_pages) == (kernel, cores, huge_pages)
    }
    if not points:
        return
    strides = sorted({stride for _, stride in points})[:COLUMNS_MAX]
    console.print(Text(f"{kernel}, GB/s by stride in words {condition(cores, huge_pages)}", style="bold"))
    grid = table("working set", *(str(stride) for stride in strides))
    for size in sorted({size for size, _ in points}):
        cells = [bandwidth(points[size, stride]) if (size, stride) in points else "" for stride in strides]
        grid.add_row(format.size(size), *cells)
    console.print(grid)


def _print_latencies(found: Characterisation, cores: int, huge_pages: str, console: Console) -> None:
    rows = [each for each in found.latencies if (each.cores, each.huge_pages) == (cores, huge_pages)]
    if not rows:
        return
    console.print(Text(f"latency of dependent loads {condition(cores, huge_pages)}", style="bold"))
    grid = table("working set", "median", "min", "max")
    for each in rows:
        spread = each.seconds_per_load
        grid.add_row(
            format.size(each.working_set_bytes),
            *(format.seconds(value) for value in (spread.median, spread.min, spread.max)),
        )
    console.print(grid)
