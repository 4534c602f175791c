"""Counts log entries that are not replayed, so that nobody mistakes a partial replay for a complete one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_REASONS = {
    "with_query": ("with a query", "--paths original"),
    "other_method": ("with methods other than GET and HEAD", "--allow-methods"),
    "failed": ("failed or redirected", "--failed expect"),
    "partial": ("answered partially", "--failed send"),
    "without_size": ("without a size", "--assume-size"),
    "of_unknown_size": ("of documents whose size is not in the log", "--assume-size"),
    "without_target": ("without a request line", None),
}
"""By key of the import's report: a description, and the option that includes them."""


@dataclass(frozen=True)
class LeftOut:
    """Entries of a log that are not in its trace."""

    kept: int
    by_reason: Mapping[str, int]
    """Their number by key of the import's report; positive ones only."""

    @classmethod
    def of(cls, report: Mapping[str, object]) -> LeftOut:
        """Reads them from an import's report."""
        skipped, kept = report["skipped"], report["requests"]
        assert isinstance(skipped, Mapping)
        assert isinstance(kept, int)
        return cls(kept, {key: int(skipped[key]) for key in _REASONS if skipped.get(key)})

    @property
    def fraction(self) -> float:
        """Their share of the log's requests."""
        count = sum(self.by_reason.values())
        return count / (count + self.kept) if count else 0.0

    def __str__(self) -> str:
        count = sum(self.by_reason.values())
        parts = ", ".join(f"{number:,} {_REASONS[key][0]}" for key, number in self.by_reason.items())
        return f"{count:,} of the log's {count + self.kept:,} requests are not replayed: {parts}"

    @property
    def hint(self) -> str:
        """The options that include them."""
        options = [option for key in self.by_reason if (option := _REASONS[key][1])]
        return f"{', '.join(dict.fromkeys(options))} would include them; --left-out-limit raises the limit"
