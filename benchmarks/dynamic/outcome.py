"""The outcome of a run: tables on the terminal, and the page in a folder."""

from __future__ import annotations

from pathlib import Path
from string import Template

from benchmarks.dynamic.conditions import CONDITIONS
from benchmarks.dynamic.targets import TARGETS
from benchmarks.server import outcome
from benchmarks.server.page import circumstances, loaded, notes_section, targets
from benchmarks.server.targets import Verdict, judge


class Outcome(outcome.Outcome):
    """The tables of a record's cells."""

    name = "dynamic-benchmark"

    def _verdicts(self) -> list[Verdict]:
        return judge(self.tables, TARGETS, CONDITIONS)

    def _page(self, folder: Path) -> str:
        del folder
        template = Template(Path(__file__).with_name("page.md.template").read_text())
        return template.substitute(
            circumstances(self.run),
            targets=targets(self._verdicts(), self.tables.default),
            fastcgi="\n\n".join(
                loaded(table) for table in self.measured if table.condition.name.startswith("fastcgi-")
            ),
            cgi="\n\n".join(loaded(table) for table in self.measured if table.condition.name.startswith("cgi-")),
            notes=notes_section(self.measured),
        )
