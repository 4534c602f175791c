"""Findings counted, and those that rest on measurements apart from those that were simulated or only reckoned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sojourn.study.evidence import EVIDENCE
from sojourn.study.samples import FINDINGS

Found = tuple[str, str | None]
"""A finding, and what it rests on; None in a summary that an earlier version wrote."""
_PLURALS = {
    "identity of the model": "identities of the model",
    "holds": "hold",
    "does not hold": "do not hold",
    "not decided": "are not decided",
    "not enough points": "have not enough points",
}
_SINGULARS = {"not decided": "is not decided", "not enough points": "has not enough points"}
_UNKNOWN = "not recorded"


def counted(found: Sequence[Found]) -> list[str]:
    """How many came to each finding that there is, those of each kind of evidence behind it."""
    kinds = {name: [kind for each, kind in found if each == name] for name in FINDINGS}
    return [_counted(name, of_it) for name, of_it in kinds.items() if of_it]


def by_evidence(found: Iterable[Found]) -> list[tuple[str, list[int]]]:
    """By what they rest on, how many there are, and how many came to each finding."""
    counts: dict[str, Counter[str]] = {}
    for finding, kind in found:
        counts.setdefault(kind or _UNKNOWN, Counter())[finding] += 1
    kinds = [kind for kind in (*EVIDENCE, _UNKNOWN) if kind in counts]
    return [(kind, [counts[kind].total(), *(counts[kind][name] for name in FINDINGS)]) for kind in kinds]


def _counted(name: str, kinds: Sequence[str | None]) -> str:
    counts = Counter(kind or _UNKNOWN for kind in kinds)
    apart = [
        f"{counts[kind]:,} {_PLURALS.get(kind, kind) if counts[kind] > 1 else kind}"
        for kind in (*EVIDENCE, _UNKNOWN)
        if counts[kind]
    ]
    said = _SINGULARS.get(name, name) if len(kinds) == 1 else _PLURALS[name]
    return f"{len(kinds):,} {said} ({', '.join(apart)})"
