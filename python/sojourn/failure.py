"""Failures that a person can fix: what went wrong, where, and a suggested fix.

Exit codes of every command: 0 ran, 1 ran with failures (or was interrupted), 2 could not run.
"""

from __future__ import annotations

EXIT_RAN = 0
EXIT_RAN_WITH_FAILURES = 1
EXIT_COULD_NOT_RUN = 2


class CouldNotRun(Exception):
    """The command could do nothing useful and ends with exit code 2."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    @property
    def said(self) -> str:
        """Message and hint in one line."""
        return " ".join((self.what + (f"; {self.hint}" if self.hint else "")).split())

    def __str__(self) -> str:
        return f"error: {self.what}" + (f"\nhint: {self.hint}" if self.hint else "")
