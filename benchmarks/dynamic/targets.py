"""The targets: CPU time per request, compared with nginx and with a bare loop that starts processes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.server.results import ratio
from benchmarks.server.targets import Tables, Target, against_nginx


def _against_loop(tables: Tables, condition: str) -> float | None:
    table = tables[condition]
    return ratio(tables.ours(condition), table.best("null")) if table else None


TARGETS: Sequence[Target] = (
    Target("fastcgi-1KB", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-5KB", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-50KB", "default", "nginx", 0.80, against_nginx),
    Target("cgi-1KB", "default", "bare loop", 1.10, _against_loop),
)
