"""The files generated from the engine: `scripts/generate` writes them, a test compares them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts import reference_page, result_types, results_page, scenario_page, server_pages
from sojourn.applications.summary import ApplicationSummary
from sojourn.assessment.summary import Summary

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "sojourn" / "engine"
HERE = "here"
"""The key under which the engine describes this machine."""


def description(engine: str) -> dict[str, Any]:
    """Returns the engine's description of itself, without what depends on the machine."""
    done = subprocess.run([engine, "describe", "--json"], capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return {**said, HERE: {"architectures_unavailable": {}}}


def files(engine: str) -> dict[Path, str]:
    """Returns the text of every generated file by its path."""
    said = description(engine)
    docs = ROOT / "docs"
    scenarios = docs / "scenarios.md"
    return {
        ROOT / "crates" / "engine" / "src" / "schemas.json": _compact(
            {key: said[key] for key in ("schemas", "scenario")}
        ),
        PACKAGE / "describe.json": json.dumps(said, indent=1, ensure_ascii=False) + "\n",
        PACKAGE / "results.py": result_types.module(said["schemas"]),
        docs / "reference.md": reference_page.page(said["commands"]),
        docs / "configuration.md": server_pages.configuration(said["commands"]),
        docs / "metrics.md": server_pages.metrics(said["counters"]),
        docs / "results.md": results_page.page(),
        docs / "application.schema.json": _written(ApplicationSummary.model_json_schema()),
        docs / "assessment.schema.json": _written(Summary.model_json_schema()),
        docs / "engine.schema.json": _written(results_page.as_json_schema(said["schemas"])),
        scenarios: scenario_page.with_tables(scenarios.read_text(), said["scenario"], said["scenario_values"]),
    }


def _written(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1) + "\n"


def _compact(schemas: dict[str, Any]) -> str:
    return json.dumps(schemas, ensure_ascii=False, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    generated = files(sys.argv[-1])
    types = PACKAGE / "results.py"
    types_changed = types.read_text() != generated[types]
    for path, text in generated.items():
        path.write_text(text)
        print(f"written: {path.relative_to(ROOT)}", file=sys.stderr)
    if types_changed:
        # The pages above were made from the types as they were when this process imported them.
        sys.exit(subprocess.run([sys.executable, "-m", "scripts.generated", *sys.argv[1:]], check=False).returncode)
