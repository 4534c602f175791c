"""Writes metrics in Prometheus' text exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Kind = Literal["counter", "gauge", "summary"]
Samples = Sequence[tuple[Mapping[str, str], float | None]]
"""Pairs of labels and value; None where it is not known."""

_IN_A_LABEL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_EXACT_MAX = 2**53
"""Whole numbers below this are exact as floating-point numbers."""


class Exposition:
    """The text that a scraper reads; all names begin with the same prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lines: list[str] = []

    def family(self, name: str, kind: Kind, help_text: str, samples: Samples) -> None:
        """Adds a family of metrics; one without a known value is left out."""
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            self._lines += [
                f"# HELP {self._prefix}{name} {_one_line(help_text)}",
                f"# TYPE {self._prefix}{name} {kind}",
            ]
            self._lines += [self._sample(name, value, labels) for labels, value in known]

    def summary(
        self, name: str, help_text: str, quantiles: Mapping[str, float | None], total: float, count: int
    ) -> None:
        """Adds the quantiles, the sum and the number of observations."""
        self.family(name, "summary", help_text, [({"quantile": each}, value) for each, value in quantiles.items()])
        self._lines += [self._sample(f"{name}_sum", total, {}), self._sample(f"{name}_count", count, {})]

    def unavailable(self, name: str, because: str) -> None:
        """Says in a comment why a metric has no value."""
        self._lines.append(f"# {self._prefix}{name} is unavailable: {_one_line(because)}")

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def _sample(self, name: str, value: float, labels: Mapping[str, str]) -> str:
        inner = ",".join(f'{label}="{text.translate(_IN_A_LABEL)}"' for label, text in labels.items())
        return f"{self._prefix}{name}{f'{{{inner}}}' if inner else ''} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < _EXACT_MAX else repr(float(value))


def _one_line(text: str) -> str:
    # A backslash would begin an escape.
    return " ".join(text.split()).replace("\\", r"\\")
