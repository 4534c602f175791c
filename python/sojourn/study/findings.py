"""The findings of a study, from its folder alone: verdicts, fitted lines, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from sojourn import __version__
from sojourn.study.cells import Cell, Cells
from sojourn.study.checks import Verdict, judge
from sojourn.study.document import Study
from sojourn.study.fits import Line, fitted
from sojourn.study.folder import StudyFolder
from sojourn.study.points import in_order
from sojourn.study.scale import given_up

QUICK = "--quick is to try, not to believe"


@dataclass(frozen=True)
class Findings:
    """What a folder says of its study."""

    study: Study
    cells: Cells
    verdicts: list[Verdict]
    lines: list[Line]
    points: int
    planned: int
    missing: dict[str, str]
    failed: dict[str, int]
    """Why points failed with nothing measured, and how many."""
    unlimited: dict[str, int] = field(default_factory=dict)
    """Why servers had more of their core than the study gives them, and at how many points."""
    given_up: list[str] = field(default_factory=list)
    """What the whole study has and this has not."""

    @property
    def is_whole(self) -> bool:
        """Whether every point was measured."""
        return self.points == self.planned and not self.missing and not self.failed

    def as_json(self) -> dict[str, Any]:
        """The summary: estimates per cell, verdicts, what is missing."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "source": self.study.source,
            "sojourn_version": __version__,
            "points": self.points,
            "points_planned": self.planned,
            "tried": self.study.tried,
            "given_up": self.given_up,
            "missing": self.missing,
            "failed": self.failed,
            "cpu_unlimited": self.unlimited,
            "verdicts": [each.as_json() for each in self.verdicts],
            "fits": [each.as_json() for each in self.lines],
            "cells": [{"settings": dict(cell.settings), **self._figures(cell)} for cell in self.cells.cells],
        }

    def _figures(self, cell: Cell) -> dict[str, Any]:
        found = {}
        for name in self.study.metrics():
            each = cell.estimate(name)
            figures = {"value": None, "low": None, "high": None} if each is None else asdict(each)
            found[name] = {**figures, "not_trusted_because": cell.spoilt(name)}
        return found


def find(folder: StudyFolder, missing: dict[str, str] | None = None) -> Findings:
    """Reads the points and judges them."""
    records = folder.records()
    study = folder.study
    cells = Cells.of(records, study.linked)
    tried = QUICK if study.tried else None
    verdicts = [judge(check, cells, study.figure, tried) for check in study.checks]
    lines = [fitted(fit, cells) for fit in study.fits]
    failed = Counter(str(each["failed"]) for each in records if not each["metrics"])
    points = len(records), len(in_order(study))
    unlimited = Counter(str(each["cpu_unlimited"]) for each in records if each.get("cpu_unlimited"))
    left_out = given_up(folder.whole, study)
    return Findings(study, cells, verdicts, lines, *points, missing or {}, dict(failed), dict(unlimited), left_out)
