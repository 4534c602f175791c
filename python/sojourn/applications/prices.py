"""The prices of changes, from the user's own table; there are no built-in prices.

currency = "EUR"
per = "month"

[prices]
"app.server" = 40         # another machine like this one for the tier
"app.cores" = 12.5        # a core
"app.workers" = 0         # a worker
"cache" = 25
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

KINDS = ("server", "cores", "workers", "connections", "processes", "disk", "lock", "cache", "service")
"""The resources that can have a price; for a tier as `app.cores`, for all tiers as `cores`."""
EXAMPLE = 'as in currency = "EUR", per = "month", [prices] "app.cores" = 12.5'


@dataclass(frozen=True)
class Prices:
    """A table of prices."""

    currency: str
    per: str | None
    of: Mapping[str, float]

    def cost(self, tier: str | None, kind: str, count: float) -> str | None:
        """The cost of additional units in words; None if the table lacks the price."""
        price = self.of.get(f"{tier}.{kind}", self.of.get(kind))
        if price is None:
            return None
        per = f" a {self.per}" if self.per else ""
        return f"{price * count:,.2f} {self.currency}{per}"


def read(path: Path) -> Prices:
    """Reads a table of prices.

    Raises:
        CouldNotRun: it is malformed; the message says where.
    """
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CouldNotRun(f"{path} is no table of prices: {error}", EXAMPLE) from error
    unknown = set(table) - {"currency", "per", "prices"}
    currency, per, prices = table.get("currency"), table.get("per"), table.get("prices")
    if unknown:
        raise CouldNotRun(f"{path}: {sorted(unknown)[0]!r} is not known", EXAMPLE)
    if not isinstance(currency, str) or not isinstance(prices, dict) or not (per is None or isinstance(per, str)):
        raise CouldNotRun(f"{path} needs a currency and [prices]", EXAMPLE)
    of = dict[str, float]()
    for name, price in prices.items():
        if name.rpartition(".")[2] not in KINDS:
            raise CouldNotRun(f"{path}: {name!r} is nothing that changes", f"of a tier or of all: {', '.join(KINDS)}")
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
            raise CouldNotRun(f"{path}: {name} = {price!r} is no price", "give a number, of the currency")
        of[name] = float(price)
    return Prices(currency, per, of)
