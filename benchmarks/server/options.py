"""The options of the benchmarks of servers, proxies and gateways, and the setting that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import machine
from benchmarks.server import network
from benchmarks.server.cell import Setting
from sojourn.text import quantity
from sojourn.workload import site
from sojourn.workload.site import Document

SYSTEM_CONGESTION_CONTROL = "system"
QUICK_DURATION_SECONDS = 0.3
"""Long enough for the server to get its core, even if other programs run."""

WarmUp = Annotated[str, typer.Option(help="Warm-up before each cell.")]
CongestionControl = Annotated[
    str, typer.Option(help="Congestion control of all connections; `system` changes nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the cells that the folder already has.")]
Quick = Annotated[bool, typer.Option("--quick", help="One short repetition, only to try whether everything runs.")]


InTurn = Annotated[
    bool,
    typer.Option(
        "--in-turn",
        help="Keep all servers running and load one after the other, round after round (--repetitions): ratios on a "
        "machine whose speed changes. Moments are enough: --repetitions 60 --duration 200ms --warm-up 50ms.",
    ),
]


@dataclass(frozen=True)
class Asked:
    """The options as given."""

    repetitions: int
    duration: str
    warm_up: str
    congestion_control: str
    seed: int
    output: Path
    docs: Path | None
    resume: bool
    quick: bool
    in_turn: bool = False

    def setting(self, documents: Iterable[Document], site_bytes_max: int) -> Setting:
        """Builds the site, and enters the network in which cells are measured."""
        control = None if self.congestion_control == SYSTEM_CONGESTION_CONTROL else self.congestion_control
        if control is not None:
            # Before the first cell, to find out whether it works, and so that the description is of this network.
            network.enter_own(control)
        machine.raise_descriptors()
        folder = self.output / "site"
        site.build(folder, documents, site_bytes_max)
        moment = QUICK_DURATION_SECONDS if self.quick else None
        return Setting(
            site=folder,
            cores=machine.two_cores(),
            seed=self.seed,
            duration_seconds=moment or quantity.seconds(self.duration),
            warm_up_seconds=moment or quantity.seconds(self.warm_up),
            congestion_control=control,
            in_turn=self.in_turn,
        )
