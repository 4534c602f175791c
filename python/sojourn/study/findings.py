"""The results of a study, computed from its folder alone: verdicts, fitted lines, and gaps."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace

from sojourn import __version__
from sojourn.study.cells import Cell, Cells
from sojourn.study.checks import Verdict
from sojourn.study.decisions import FINDINGS
from sojourn.study.document import Study
from sojourn.study.evidence import evidence
from sojourn.study.finding_counts import by_evidence
from sojourn.study.fits import Line, fitted
from sojourn.study.folder import StudyFolder
from sojourn.study.points import Point, in_order
from sojourn.study.scale import given_up
from sojourn.study.sequential_testing import Looks
from sojourn.study.sources import citation


@dataclass(frozen=True)
class Findings:
    """The results of a study's folder."""

    study: Study
    cells: Cells
    verdicts: list[Verdict]
    lines: list[Line]
    points: int
    planned: int
    missing: dict[str, str]
    failed: dict[str, int]
    """The number of points that failed without any measurement, by reason."""
    unlimited: dict[str, int] = field(default_factory=dict)
    """The number of points whose server had more CPU than the study allows, by reason."""
    given_up: list[str] = field(default_factory=list)
    """Parts of the whole study that were left out."""
    repeated: int = 0
    """Points beyond the planned repetitions, measured to decide open findings."""

    def open_points(self, seconds: float | None) -> list[Point]:
        """The points to measure next to decide findings within this time."""
        return Looks(self.study, self.cells).open_points(self.verdicts, seconds)

    @property
    def is_whole(self) -> bool:
        """Returns true if every point was measured."""
        return self.points == self.planned and not self.missing and not self.failed

    def as_json(self) -> dict[str, object]:
        """The summary: estimates per cell, verdicts, gaps."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "source": self.study.source,
            "source_in_full": citation(self.study.source),
            "sojourn_version": __version__,
            "points": self.points,
            "points_planned": self.planned,
            "points_repeated": self.repeated,
            "tried": self.study.tried,
            "given_up": self.given_up,
            "missing": self.missing,
            "failed": self.failed,
            "cpu_unlimited": self.unlimited,
            "verdicts": [each.as_json() for each in self.verdicts],
            "counts": {kind: dict(zip(("all", *FINDINGS), counts, strict=True)) for kind, counts in self._counts()},
            "fits": [each.as_json() for each in self.lines],
            "cells": [{"settings": dict(cell.settings), **self._figures(cell)} for cell in self.cells.cells],
        }

    def _counts(self) -> list[tuple[str, list[int]]]:
        return by_evidence((each.finding, each.evidence) for each in self.verdicts)

    def _figures(self, cell: Cell) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in self.study.metrics():
            each = cell.estimate(name)
            figures = {"value": None, "low": None, "high": None} if each is None else asdict(each)
            found[name] = {**figures, "not_trusted_because": cell.untrusted_because(name)}
        return found


def find(folder: StudyFolder, missing: dict[str, str] | None = None) -> Findings:
    """Reads the points and judges the checks."""
    records = folder.records()
    study = folder.study
    cells = Cells.of(records, study.linked)
    looks = Looks(study, cells, folder.whole)
    verdicts = [replace(looks.verdict(check), evidence=evidence(study, check)) for check in study.checks]
    lines = [fitted(fit, cells) for fit in study.fits]
    failed = Counter(str(each["failed"]) for each in records if not each["metrics"])
    repeated = sum(each["repetition"] > study.repetitions for each in records)
    unlimited = Counter(str(each["cpu_unlimited"]) for each in records if each.get("cpu_unlimited"))
    return Findings(
        study,
        cells,
        verdicts,
        lines,
        points=len(records) - repeated,
        planned=len(in_order(study)),
        missing=missing or {},
        failed=dict(failed),
        unlimited=dict(unlimited),
        given_up=given_up(folder.whole, study),
        repeated=repeated,
    )
