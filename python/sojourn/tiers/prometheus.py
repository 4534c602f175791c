"""Reads an application's metrics in Prometheus' text format."""

from __future__ import annotations

import re

from sojourn.failure import CouldNotRun
from sojourn.tiers import status_page

BYTES_MAX = 8 << 20
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(\{.*\})?\s+([^\s]+)(?:\s+-?\d+)?")


def read(url: str) -> dict[str, float]:
    """Reads all samples of an endpoint, by name with labels.

    Raises:
        CouldNotRun: it does not answer, or not in this format.
    """
    try:
        text = status_page.read(url, BYTES_MAX).decode(errors="replace")
    except (OSError, ValueError) as error:
        raise CouldNotRun(
            f"{url} says no metrics: {error}", "give --prometheus URL of what Prometheus scrapes"
        ) from error
    return parse(text)


def parse(text: str) -> dict[str, float]:
    """Parses a text; lines that are not samples are ignored."""
    found = {}
    for line in text.splitlines():
        sample = _LINE.fullmatch(line.strip())
        if sample is None or line.startswith("#"):
            continue
        try:
            found[sample[1] + (sample[2] or "")] = float(sample[3])
        except ValueError:
            continue
    return found
