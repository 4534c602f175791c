"""The outcome of a run: tables on the terminal, and the page in a folder."""

from __future__ import annotations

from pathlib import Path

from benchmarks.proxy.conditions import CONDITIONS
from benchmarks.proxy.page import TARGETS, page
from benchmarks.server import outcome
from benchmarks.server.targets import Verdict, judge
from sojourn.engine.description import default_architecture


class Outcome(outcome.Outcome):
    """The tables of a record's cells."""

    name = "proxy-benchmark"

    def _default(self) -> str:
        return default_architecture("proxy")

    def _verdicts(self) -> list[Verdict]:
        return judge(self.tables, TARGETS, CONDITIONS)

    def _page(self, folder: Path) -> str:
        del folder
        return page(self.run, self.measured, self.tables)
