"""The words that an assessment's command line offers. They are apart so that `--help` need not load the measuring."""

from __future__ import annotations

from enum import StrEnum

from sojourn.failure import CouldNotRun


class EffortName(StrEnum):
    quick = "quick"
    normal = "normal"
    thorough = "thorough"


CHANGE_NAMES = (
    "half-processor",
    "quarter-processor",
    "twice-processor",
    "more-helpers",
    "one-helper",
    "fewer-workers",
    "slow-line",
    "nginx",
    "apache2",
    "sojourn",
)
"""The values of `--verify`; `verification.changes` has what they do."""
ALL_CHANGES = "all"
"""The value of `--verify` for all applicable changes."""


def chosen_changes(text: str) -> tuple[str, ...]:
    """Parses a list of changes, or `all`.

    Raises:
        CouldNotRun: one of them is unknown.
    """
    if text == ALL_CHANGES:
        return CHANGE_NAMES
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in CHANGE_NAMES:
            raise CouldNotRun(
                f"no change named {name!r}", f"--verify takes {', '.join(CHANGE_NAMES)}, or {ALL_CHANGES}"
            )
    return names
