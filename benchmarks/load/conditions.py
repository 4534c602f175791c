"""The conditions: closed and open loops, with and without keep-alive, and many clients that mostly think."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CLIENTS = 64
OPEN_RATE = 50_000
"""A third of what a generator's core can do: here it shows what waking up for each arrival and response costs."""
HIGH_OPEN_RATE = 150_000
"""Close to the rate of a closed loop, so that responses arrive in batches as they do there."""
MANY_CLIENTS = 19_900
"""Most systems allow a process at least 20,000 descriptors."""
MANY_CLIENTS_RATE = 5_000


@dataclass(frozen=True)
class Condition:
    """A condition, which is a table of the page."""

    name: str
    title: str
    clients: int = CLIENTS
    connection: Literal["keep-alive", "close"] = "keep-alive"
    rate: int | None = None
    """Arrivals per second of an open loop; None is a closed loop."""
    timer_slack: str | None = None
    """Our timer slack in an open loop; None is the default."""
    think_seconds: float | None = None
    warm_up_seconds: float = 0.0
    """Not measured, but its CPU time counts."""


CONDITIONS: Sequence[Condition] = (
    Condition("closed", f"500 B, keep-alive, {CLIENTS} clients in a closed loop"),
    Condition("close", f"500 B, a connection per request, {CLIENTS} clients in a closed loop", connection="close"),
    Condition("open", f"500 B, keep-alive, {OPEN_RATE:,} arrivals a second", rate=OPEN_RATE),
    Condition("open-high", f"500 B, keep-alive, {HIGH_OPEN_RATE:,} arrivals a second", rate=HIGH_OPEN_RATE),
    Condition(
        "open-1ms",
        f"500 B, keep-alive, {OPEN_RATE:,} arrivals a second, put off by up to 1 ms",
        # A connection is used for two turns, one that sends and one that receives; twice as many always suffice.
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
