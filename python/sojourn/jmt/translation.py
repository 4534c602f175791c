"""What a translation gives, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field

from sojourn.failure import CouldNotRun


@dataclass
class Translation:
    """A model in the other language, and what changed its meaning on the way."""

    text: str = ""
    warnings: list[str] = field(default_factory=list)

    def warn(self, warning: str) -> None:
        """Notes a change of meaning once."""
        if warning not in self.warnings:
            self.warnings.append(warning)


def refused(what: str, hint: str | None = None) -> CouldNotRun:
    """What has no counterpart, by name."""
    return CouldNotRun(f"no counterpart: {what}", hint or "leave it out of the model, or model it otherwise")
