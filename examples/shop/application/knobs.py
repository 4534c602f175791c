"""The knobs of the shop: one table that feeds the command line, the processes' environment and the README."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "SHOP_"


@dataclass(frozen=True)
class Knob:
    """One number that can be set with `shop start --set NAME=VALUE`."""

    name: str
    default: float
    meaning: str


KNOBS = (
    Knob("nginx_workers", 1, "Worker processes of nginx."),
    Knob("gzip_level", 1, "How hard nginx compresses pages: 0 not at all, 9 the most CPU."),
    Knob("keepalive", 0, "Idle connections to the application that nginx keeps; they stick to one of its processes."),
    Knob("page_kb", 0, "Kilobytes of text added to each page: bytes for nginx to compress and to send."),
    Knob("workers", 2, "Worker processes of gunicorn."),
    Knob("threads", 4, "Threads of each worker: so many requests it answers at a time."),
    Knob("cpu_ms", 0, "CPU time that the application adds to each request."),
    Knob("pool_size", 4, "Database connections of each worker; a request keeps one until it is answered."),
    Knob("slow_query_ms", 0, "CPU time, about, that the database adds to each page."),
    Knob("search_index", 1, "0 drops the index that searches use, so that each reads all products."),
    Knob("lock_ms", 0, "How long each product page keeps the one row that counts views locked."),
    Knob("audit_kb", 0, "Kilobytes that each page writes into an audit table and has synced to the disk."),
    Knob("external_ms", 5, "Mean time that the service for recommendations and payments takes, another machine's."),
    Knob("queue_workers", 1, "Threads that work off the queue of orders."),
    Knob("job_ms", 5, "CPU time of an order's invoice in the queue's worker."),
    Knob("products", 5000, "Products in the database."),
)


class Knobs:
    """The values that a process of the shop was started with."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._values = {knob.name: float(environment.get(PREFIX + knob.name.upper(), knob.default)) for knob in KNOBS}

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def count(self, name: str) -> int:
        """Returns the value of a knob that counts something."""
        return int(self._values[name])

    def seconds(self, name: str) -> float:
        """Returns the value of a knob in milliseconds, in seconds."""
        return self._values[name] / 1000
