"""The result of a fit: estimates, errors on held-out points, and a system file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.calibration.estimate import HeldOut
from sojourn.queueing import system_file
from sojourn.results.records import Record
from sojourn.text.toml import Table


class Fit(Record):
    """Estimates, their predictive accuracy, and the resulting system."""

    kind: str
    sources: list[str]
    points: int
    estimates: Table
    """Units in the keys; intervals as estimate, low and high."""
    held_out: list[HeldOut]
    warnings: list[str]
    system: Table
    """The system as `system_file.write` takes it."""

    def evidence(self) -> str:
        """The estimates and their accuracy, a line each."""
        lines = [f"Fitted by sojourn fit from {', '.join(self.sources)}: {self.points:,} points."]
        lines += [f"{name}: {said(value)}" for name, value in self.estimates.items() if said(value)]
        lines += [
            f"error on held-out points, {error.quantity}: median {error.relative_error_median:.1%}, largest "
            f"{error.relative_error_max:.1%} ({error.method})"
            for error in self.held_out
        ]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def system_text(self) -> str:
        """The system file, with the evidence as its first comment."""
        return system_file.write(self.system, self.evidence())


@dataclass(frozen=True)
class Options:
    """Parameters that the measurements do not contain."""

    servers: int = 1
    """Cores that share the work."""
    r: int | None = None
    """The most requests in service at once, if the table does not show it; None for processor sharing."""
    rate: float | None = None
    """Requests/s for the system file; None for the measured rate, or half of saturation."""
    hit_ratio: float | None = None
    seed: int = 1


def said(value: object) -> str:
    """An estimate in words; empty for values that are not figures."""
    if isinstance(value, Mapping):
        if set(value) == {"estimate", "low", "high"}:
            return f"{value['estimate']:.6g} ({value['low']:.6g} to {value['high']:.6g})"
        return "; ".join(f"{name} {said(each)}" for name, each in value.items() if said(each))
    if isinstance(value, list):
        return ", ".join(filter(None, map(said, value)))
    return f"{value:.6g}" if isinstance(value, int | float) else value if isinstance(value, str) else ""
