"""The measured servers: our architectures, as the installed engine lists them, the peers, and the null responder.

All run on one core with one worker; our helpers and Apache's threads share that core.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks import selection
from benchmarks.machine import ROOT
from benchmarks.server.conditions import Condition
from sojourn import systems
from sojourn.engine.description import architectures, default_architecture
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems import Launch, Running
from sojourn.systems.running import start_process, wait_until

Kind = Literal["ours", "peer", "null"]

REFERENCE = "nginx"
"""The peer that everything is compared with."""
NULL_LARGE_BYTES = 50_000
"""From this size on, sending from the page cache may be the cheapest way."""
_LISTENING = re.compile(r"^listening on (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Competitor:
    """A server in one of its forms."""

    name: str
    kind: Kind
    start: Callable[[Launch, Condition], Running]
    takes: Callable[[Condition], bool]
    """Whether it has a part in a condition."""


def competitors() -> list[Competitor]:
    """Everybody, in the order of the tables: ours, peers, null."""
    return [
        *(_ours(name) for name in architectures()),
        *(_peer(peer) for peer in systems.PEERS),
        *(null_responder(variant) for variant in ("epoll", "sendfile", "ring")),
    ]


def chosen(patterns: str | None, everybody: Sequence[Competitor] | None = None) -> list[Competitor]:
    """Those whose names match one of the comma-separated patterns; all without patterns."""
    everybody = competitors() if everybody is None else everybody
    found = selection.chosen(patterns, everybody, "server")
    if any(each.kind == "null" for each in found):
        null_responder_path()
    return found


def _ours(name: str) -> Competitor:
    def start(launch: Launch, condition: Condition) -> Running:
        del condition
        return systems.SYSTEMS["sojourn"].start(launch.with_architecture(name))

    # The log is written in the same way by all of them.
    return Competitor(name, "ours", start, lambda condition: name == default_architecture() or not condition.access_log)


def _peer(peer: systems.Server) -> Competitor:
    def start(launch: Launch, condition: Condition) -> Running:
        del condition
        return peer.start(launch)

    return Competitor(peer.name, "peer", start, lambda condition: peer.name == REFERENCE or not condition.access_log)


def null_responder(variant: str) -> Competitor:
    """The null responder in one of its variants."""

    def start(launch: Launch, condition: Condition) -> Running:
        return start_null_responder(launch, condition, "--variant", variant)

    takes: dict[str, Callable[[Condition], bool]] = {
        "epoll": lambda condition: not condition.access_log,
        "sendfile": lambda condition: condition.size_bytes >= NULL_LARGE_BYTES,
        "ring": lambda condition: condition.connection == "close",
    }
    return Competitor(f"null-{variant}", "null", start, takes[variant])


def start_null_responder(launch: Launch, condition: Condition, *options: str) -> Running:
    """Starts the null responder with a condition's document."""
    document = launch.root / condition.path.lstrip("/")
    command = [str(null_responder_path()), str(document), "--connection", condition.connection, *options]
    said = launch.work / "null-responder.log"
    process = start_process(cores.pinned_command(launch.core, command), said)
    wait_until(lambda: _LISTENING.search(said.read_text()) is not None, process, "null-responder", said)
    address = _LISTENING.search(said.read_text())
    assert address is not None
    return Running(f"http://{address[1]}", " ".join(options), command, process, [process.pid])


def null_responder_path() -> Path:
    """Where it was built.

    Raises:
        CouldNotRun: it was not.
    """
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "null-responder"
    if not built.is_file():
        raise CouldNotRun(f"{built} is not there", "build it: cargo build --release --package null-responder")
    return built
