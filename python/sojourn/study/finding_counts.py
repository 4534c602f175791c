"""Counts findings, separately for measured, simulated and calculated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sojourn.study.decisions import FINDINGS
from sojourn.study.evidence import EVIDENCE

Found = tuple[str, str | None]
"""A finding with its evidence; None in summaries of earlier versions."""
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
    """The number of findings by verdict, with the evidence of each."""
    kinds = {name: [kind for each, kind in found if each == name] for name in FINDINGS}
    return [_counted(name, of_it) for name, of_it in kinds.items() if of_it]


def by_evidence(found: Iterable[Found]) -> list[tuple[str, list[int]]]:
    """By evidence: the number of findings, and their verdicts."""
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
