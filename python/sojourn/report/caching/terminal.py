"""A cache simulation as tables on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sojourn.caching.simulation import Simulation
from sojourn.text import format


def print_cache_simulation(found: Simulation, data: Console) -> None:
    """Prints the miss ratio of every policy by cache size, for requests and bytes."""
    data.print(
        f"{found.source}: {found.requests:,} requests for {found.objects:,} objects, "
        f"{format.size(found.working_set_bytes)} together",
        soft_wrap=True,
    )
    for title, is_bytes in (("requests missed", False), ("bytes missed", True)):
        table = Table(title=title, title_justify="left")
        table.add_column("cache", justify="right")
        for policy in found.policies():
            table.add_column(policy, justify="right")
        by_policy = [found.of(policy) for policy in found.policies()]
        for index, size in enumerate(found.sizes()):
            row = [points[index] for points in by_policy]
            ratios = [point.byte_miss_ratio if is_bytes else point.miss_ratio for point in row]
            table.add_row(format.size(size), *(f"{ratio:.2%}" for ratio in ratios))
        data.print(table)
