"""The bottlenecks: how the knobs of `examples/shop` are set, and which tier and cause are then right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """The shop with one bottleneck."""

    name: str
    knobs: Sequence[str]
    right: Sequence[tuple[str, str]]
    """Tier and cause; several where the system cannot tell them apart either."""


CASES = (
    Case("app-cpu", ("cpu_ms=25",), (("app", "cpu"),)),
    Case("one-interpreter", ("cpu_ms=25", "workers=1", "threads=8", "pool_size=8"), (("app", "cpu"),)),
    Case("db-cpu", ("slow_query_ms=40",), (("db", "cpu"),)),
    Case("missing-index", ("search_index=0",), (("db", "cpu"),)),
    Case("web-cpu", ("gzip_level=9", "page_kb=300"), (("web", "cpu"),)),
    Case("few-workers", ("workers=1", "threads=1", "external_ms=20"), (("app", "workers"), ("app", "outside"))),
    Case("slow-service", ("external_ms=300",), (("app", "outside"),)),
    Case("pool", ("threads=12", "pool_size=1", "external_ms=40"), (("app", "connections"),)),
    Case("lock", ("lock_ms=40", "threads=12", "pool_size=12"), (("db", "lock"),)),
    Case("disk", ("audit_kb=2000",), (("db", "disk"),)),
)
