"""The result of a translation, and its refusals."""

from __future__ import annotations

from dataclasses import dataclass, field

from sojourn.failure import CouldNotRun


@dataclass
class Translation:
    """A translated model, with warnings where its meaning changed."""

    text: str = ""
    warnings: list[str] = field(default_factory=list)

    def warn(self, warning: str) -> None:
        """Adds a warning once."""
        if warning not in self.warnings:
            self.warnings.append(warning)


def refused(what: str, hint: str | None = None) -> CouldNotRun:
    """The failure for a feature without a counterpart."""
    return CouldNotRun(f"no counterpart: {what}", hint or "leave it out of the model, or model it otherwise")
