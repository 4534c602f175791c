"""`--change 'app.workers=8->16: COMMAND'`: a change of the model, with the command that makes it in the system.

Without a command only a tier's cores can be changed, because Sojourn limits them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.applications.endpoints import Endpoint
from sojourn.applications.modification import EXAMPLE, Modification
from sojourn.failure import CouldNotRun
from sojourn.tiers.declaration import Tier


@dataclass(frozen=True)
class Planned:
    """A change to make and measure."""

    modification: Modification
    command: str | None
    """A shell command that returns when the system has changed; None if Sojourn limits a tier's cores."""


def parse(text: str, known: Sequence[Endpoint], tiers: Sequence[Tier]) -> Planned:
    """Parses a planned change.

    Raises:
        CouldNotRun: it is malformed, or cannot be made.
    """
    setting, colon, command = text.partition(": ")
    modification = Modification.parse(setting, list(known), [tier.name for tier in tiers])
    if colon and command.strip():
        return Planned(modification, command.strip())
    if modification.kind != "cores" or modification.tier is None:
        raise CouldNotRun(f"--change {text!r} needs the command that makes it", f"{EXAMPLE}: COMMAND")
    tier = next(tier for tier in tiers if tier.name == modification.tier)
    if tier.host is not None:
        raise CouldNotRun(f"--change {text!r}: {tier.name} is on {tier.host}", "give the command that limits it there")
    return Planned(modification, None)
