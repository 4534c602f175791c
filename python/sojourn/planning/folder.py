"""The run folder of a plan: `plan.json`, `system.toml` under the target's load, `sweeps.parquet`, plots, the report."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from sojourn.environment import describe
from sojourn.planning.answers import Plan, as_json
from sojourn.planning.charts import costs, sweeps
from sojourn.planning.report import page
from sojourn.planning.system_document import SystemDocument
from sojourn.report.image import write_images
from sojourn.run_folder import RunFolder

SUMMARY = "plan.json"
REPORT = "report.html"


def default_output(system: Path) -> Path:
    """`runs/plan-NAME`, or the first of its successors that is free."""
    name = f"plan-{system.stem}"
    candidates = (Path("runs") / (name if count == 1 else f"{name}-{count}") for count in range(1, 10_000))
    return next(candidate for candidate in candidates if not candidate.exists())


def prepare(path: Path) -> RunFolder:
    """Makes the folder; one that holds a run is refused, never overwritten."""
    return RunFolder.create(path, holds=(SUMMARY,), inside="plots")


def write(folder: RunFolder, plan: Plan, document: SystemDocument) -> Path:
    """Writes everything and returns where the report is."""
    folder.write_json(SUMMARY, as_json(plan))
    folder.write_json("environment.json", describe())
    folder.write_text("system.toml", document.text)
    rows = ([{"parameter": sweep.parameter, **as_json(point)} for point in sweep.points] for sweep in plan.sweeps)
    folder.write_table("sweeps.parquet", list(chain.from_iterable(rows)))
    write_images(folder, [*sweeps(plan), *costs(plan)])
    folder.write_text(REPORT, page(plan, document))
    return folder.path / REPORT
