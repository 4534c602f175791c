"""The cases: the knobs of `examples/shop`, or a foreign application, each with the right answers.

The rules of `diagnosis` were developed with other knobs than these: `cpu_ms=25`, `slow_query_ms=40`, `external_ms=300`,
`lock_ms=40`, `audit_kb=2000`, `page_kb=300`, one connection, one worker. That connections which a tier has not accepted
count as waiting for its workers was added for `dokuwiki-one-process`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.applications.foreign import dokuwiki, json_server
from benchmarks.applications.foreign.running import Foreign, Parts


@dataclass(frozen=True)
class Case:
    """The shop with one known bottleneck."""

    name: str
    knobs: Sequence[str]
    right: Sequence[tuple[str, str]]
    """Tier and cause; several where the system itself cannot tell them apart."""


CASES = (
    Case("app-cpu", ("cpu_ms=9", "workers=3"), (("app", "cpu"),)),
    Case("one-interpreter", ("cpu_ms=6", "workers=1", "threads=6", "pool_size=6"), (("app", "cpu"),)),
    Case("one-of-two-processes", ("cpu_ms=12", "keepalive=64"), (("app", "cpu"),)),
    Case("db-cpu", ("slow_query_ms=14",), (("db", "cpu"),)),
    Case("missing-index", ("search_index=0", "gzip_level=0", "threads=6", "pool_size=6"), (("db", "cpu"),)),
    Case("web-cpu", ("gzip_level=6", "page_kb=700"), (("web", "cpu"),)),
    Case("few-workers", ("workers=2", "threads=1", "external_ms=60"), (("app", "workers"), ("app", "outside"))),
    Case("slow-service", ("external_ms=160", "threads=6", "pool_size=6"), (("app", "outside"),)),
    Case("pool", ("threads=10", "pool_size=2", "external_ms=90"), (("app", "connections"),)),
    Case("lock", ("lock_ms=18", "threads=8", "pool_size=8"), (("db", "lock"),)),
    Case("disk", ("audit_kb=900", "threads=6", "pool_size=6"), (("db", "disk"),)),
)


@dataclass(frozen=True)
class Verified:
    """The shop with changes that are predicted and then made."""

    name: str
    knobs: Sequence[str]
    changes: Sequence[tuple[str, Sequence[str] | None]]
    """The change as the model gets it, and the knobs that make it; None if Sojourn limits a tier's cores."""


VERIFIED = (
    Verified(
        "changes-default",
        (),
        (("app.cores=0.5", None), ("db.cores=0.3", None), ("app.processes=2->4", ("workers=4",))),
    ),
    Verified(
        "changes-workers",
        ("external_ms=100",),
        (
            ("app.workers=8->16", ("external_ms=100", "threads=8", "pool_size=8")),
            ("service=x0.5", ("external_ms=50",)),
        ),
    ),
)


@dataclass(frozen=True)
class ForeignCase:
    """An application that is not ours."""

    name: str
    meaning: str
    starting: Callable[[Path], Callable[[Parts], Foreign]]
    """Starts it from the folder that `peers` made."""
    paths: Sequence[str]
    right: Sequence[tuple[str, str]]


FOREIGN = (
    ForeignCase(
        "dokuwiki",
        "nginx, php-fpm with 6 processes, DokuWiki",
        lambda peers: dokuwiki.starting(peers / "dokuwiki", children=6),
        dokuwiki.PATHS,
        (("app", "cpu"),),
    ),
    ForeignCase(
        "dokuwiki-one-process",
        "the same with one php-fpm process",
        lambda peers: dokuwiki.starting(peers / "dokuwiki", children=1),
        dokuwiki.PATHS,
        # It is the only worker, and it never sleeps.
        (("app", "cpu"), ("app", "workers")),
    ),
    ForeignCase(
        "json-server",
        "nginx, one process of Node, json-server",
        lambda peers: json_server.starting(peers / "node"),
        json_server.PATHS,
        (("app", "cpu"),),
    ),
)
