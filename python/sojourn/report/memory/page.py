"""The page and the folder of a memory characterisation."""

from __future__ import annotations

from pathlib import Path

from sojourn.engine.results import MemoryBacking, Record, Spread
from sojourn.machine import environment
from sojourn.machine.environment import Environment
from sojourn.memory.characterisation import Characterisation
from sojourn.report.assessment.measurement_tables import written
from sojourn.report.drawing import figure
from sojourn.report.image import write_images
from sojourn.report.markup import Markup, element, join, shell
from sojourn.report.memory.charts import curves, latencies
from sojourn.report.memory.surface import surface_figure, surfaces
from sojourn.report.tables import pairs
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

SUMMARY = "memory.json"
REPORT = "report.html"
SOURCES = (SUMMARY, "points.parquet", "environment.json")


def prepare(path: Path) -> RunFolder:
    """Creates the folder; refuses one that holds a characterisation."""
    return RunFolder.create(path, holds=(SUMMARY,), inside="plots")


def write(folder: RunFolder, found: Characterisation) -> Path | None:
    """Writes everything and returns the page's path."""
    machine = environment.describe(found.machine)
    folder.write_json(SUMMARY, found.as_json())
    folder.write_json("environment.json", machine)
    folder.write_table(
        "points.parquet", [_row(each, "bytes_per_second", each.bytes_per_second) for each in found.points]
    )
    folder.write_table(
        "latencies.parquet", [_row(each, "seconds_per_load", each.seconds_per_load) for each in found.latencies]
    )
    write_images(folder, [*curves(found), *latencies(found)])
    folder.write_text(REPORT, page(found, machine))
    return folder.written(REPORT)


def page(found: Characterisation, machine: Environment) -> str:
    notes = [] if found.complete else ["Interrupted: what was measured until then is shown."]
    if found.disturbed:
        notes.append(f"{found.disturbed:,} measurements were kept although others held the core for part of them.")
    main = join(
        element("section", [element("p", note, class_="missing") for note in notes]) if notes else None,
        _section("surfaces", "Surfaces", [surface_figure(each) for each in surfaces(found)]),
        _section("curves", "Curves", [figure(chart) for chart in curves(found)]),
        _section("latency", "Latency", [figure(chart) for chart in latencies(found)]),
        element("section", element("h2", "Machine"), _machine(found, machine), id="machine"),
    )
    subtitle = f"{machine['processor']} · seed {found.seed}"
    return shell("memory characterisation", "Extended copy transfer", subtitle, main, found.version, SOURCES)


def _section(identifier: str, title: str, figures: list[Markup]) -> Markup | None:
    if not figures:
        return None
    return element("section", element("h2", title), element("div", figures, class_="plots"), id=identifier)


def _machine(found: Characterisation, machine: Environment) -> Markup:
    rows = [
        (f"L{each.level} {each.kind.lower()}", f"{format.size(each.size_bytes)}, shared by cores {each.shared_by}")
        for each in found.data_caches()
    ]
    rows += [(f"huge pages {each.huge_pages}", _backing(each)) for each in found.backing]
    skipped = {"caches"}
    rows += [(name.replace("_", " "), written(name, value)) for name, value in machine.items() if name not in skipped]
    return pairs("table-machine", "What was measured", rows)


def _backing(backing: MemoryBacking) -> str:
    held = [
        f"core {core}: {format.size(value) if isinstance(value, int) else value.unavailable}"
        for core, value in zip(backing.cores, backing.huge_page_bytes, strict=True)
    ]
    return f"of {format.size(backing.bytes)} huge pages held {', '.join(held)}"


def _row(point: Record, figure: str, spread: Spread) -> dict[str, object]:
    """A table row of a point, with the spread's keys prefixed by the figure's name."""
    own = {name: value for name, value in point.model_dump().items() if name != figure}
    return own | {f"{figure}_{key}": value for key, value in spread.model_dump().items()}
