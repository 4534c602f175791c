"""What load is made: closed and open loops, connections kept or not, and many clients that mostly think."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CLIENTS = 64
OPEN_RATE = 50_000
"""A third of what a generator's core can do: what wakes for single arrivals and answers pays for it here."""
HIGH_OPEN_RATE = 150_000
"""Near what a closed loop makes, so that answers come in batches as they do there."""
MANY_CLIENTS = 19_900
"""Most systems let a process have 20,000 descriptors or more."""
MANY_CLIENTS_RATE = 5_000


@dataclass(frozen=True)
class Condition:
    """A table of the page."""

    name: str
    title: str
    clients: int = CLIENTS
    connection: Literal["keep-alive", "close"] = "keep-alive"
    rate: int | None = None
    """Arrivals per second of an open loop; None is a closed loop."""
    timer_slack: str | None = None
    """By how much ours may put things off in an open loop, where it is not the default."""
    think_seconds: float | None = None
    warm_up_seconds: float = 0.0
    """Not measured, and paid for all the same."""


CONDITIONS: Sequence[Condition] = (
    Condition("closed", f"500 B, keep-alive, {CLIENTS} clients in a closed loop"),
    Condition("close", f"500 B, a connection per request, {CLIENTS} clients in a closed loop", connection="close"),
    Condition("open", f"500 B, keep-alive, {OPEN_RATE:,} arrivals a second", rate=OPEN_RATE),
    Condition("open-high", f"500 B, keep-alive, {HIGH_OPEN_RATE:,} arrivals a second", rate=HIGH_OPEN_RATE),
    Condition(
        "open-1ms",
        f"500 B, keep-alive, {OPEN_RATE:,} arrivals a second, put off by up to 1 ms",
        # A connection is taken for two turns, one that sends and one that receives; twice as many are never short.
        clients=4 * OPEN_RATE // 1000,
        rate=OPEN_RATE,
        timer_slack="1ms",
    ),
    Condition(
        "many-clients",
        f"500 B, {MANY_CLIENTS:,} clients that mostly think, {MANY_CLIENTS_RATE:,} requests a second",
        clients=MANY_CLIENTS,
        think_seconds=MANY_CLIENTS / MANY_CLIENTS_RATE,
        warm_up_seconds=6.0,
    ),
)
