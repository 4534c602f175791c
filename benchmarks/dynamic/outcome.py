"""The outcome of a run: its targets, tables on the terminal, and the page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from benchmarks.dynamic.conditions import CONDITIONS
from benchmarks.server import outcome
from benchmarks.server.page import circumstances, loaded, notes_section, targets
from benchmarks.server.results import ratio
from benchmarks.server.targets import Tables, Target, Verdict, against_nginx, judge
from sojourn.loading.confidence import Estimate


def _against_loop(tables: Tables, condition: str) -> Estimate | None:
    table = tables[condition]
    return ratio(tables.ours(condition), table.best("null")) if table else None


TARGETS: Sequence[Target] = (
    Target("fastcgi-1KB", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-5KB", "default", "nginx", 0.80, against_nginx),
    Target("fastcgi-50KB", "default", "nginx", 0.80, against_nginx),
    Target("cgi-1KB", "default", "bare loop", 1.10, _against_loop),
)


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
