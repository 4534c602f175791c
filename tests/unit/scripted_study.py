"""A study of a scripted system: what its tests share."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

from sojourn.study.document import Study
from sojourn.study.folder import Record, StudyFolder
from sojourn.study.points import Point

TEXT = """
name = "test/scripted"
title = "Scripted"
source = "nobody"
question = "does it work?"
repetitions = 4
warm_up_seconds = 1
duration_seconds = 2
systems = [{ name = "fast" }, { name = "slow" }]
factors = { size = ["1KiB", "10KiB", "100KiB"] }
workload = { files = [{ path = "/file", size = "{size}" }], load = ["--clients", "2"] }
quick = { repetitions = 2, factors = { size = ["1KiB"] } }
plots = [{ title = "rate", x = "size", y = "rps", x_scale = "logarithmic" }]
printed = [{ metric = "rps", value = 42, at = { system = "fast", size = "1KiB" }, where_printed = "table 1" }]

[[checks]]
says = "fast is faster"
metric = "rps"
left = { system = "fast" }
right = { system = "slow" }
least = 1
"""
FACTOR = {"fast": 1.0, "slow": 0.5}
SIZE = {"1KiB": 1000.0, "10KiB": 800.0, "100KiB": 200.0}
# What a repetition does to all, and what chance does to each.
BLOCK = (1.0, 1.3, 0.8, 1.1)


def study(text: str = TEXT) -> Study:
    return Study.model_validate(tomllib.loads(text))


def record(rps: float | None, **changes: object) -> Record:
    return {"failed": None, "generator_limited": None, "metrics": {"rps": rps}, "counters": {}, **changes}


def scripted(point: Point) -> Record:
    settings = point.settings
    noise = 1 + 0.01 * math.sin(17 * point.cell + 5 * point.repetition)
    value = FACTOR[str(settings["system"])] * SIZE[str(settings["size"])] * BLOCK[point.repetition - 1] * noise
    return record(value, server_version="1.2")


def folder(path: Path, text: str = TEXT) -> StudyFolder:
    begun = StudyFolder.begin(path / "run", study(text), text)
    # As measuring that has ended leaves it: the test may measure again.
    begun.close()
    return begun
