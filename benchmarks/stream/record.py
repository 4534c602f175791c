"""What a run measured, kept in a file of JSON lines as each measurement ends; the first line says what the run was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.stream.capacity import Capacity
from benchmarks.stream.costs import Cost
from benchmarks.stream.pace import Pace

FILE = "cells.jsonl"


class Record:
    """The measurements of a run, by part."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self.run = run
        self.costs: list[Cost] = []
        self.capacities: list[Capacity] = []
        self.paces: list[Pace] = []
        self._path = folder / FILE
        self._path.write_text(json.dumps(run) + "\n")

    def add(self, measured: Cost | Capacity | Pace) -> None:
        """Keeps a measurement, in the file before anything else happens."""
        if isinstance(measured, Cost):
            self.costs.append(measured)
        elif isinstance(measured, Capacity):
            self.capacities.append(measured)
        else:
            self.paces.append(measured)
        with self._path.open("a") as file:
            file.write(json.dumps(measured.as_json()) + "\n")
