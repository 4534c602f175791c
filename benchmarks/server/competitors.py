"""The competitors: our architectures, as the installed engine lists them, the peers, and the null responder.

Each runs on one core with one worker; our helpers and Apache's threads share that core.
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
"""The peer with which all others are compared."""
SECURE_PEERS = ("nginx", "h2o", "caddy")
"""The peers that are set up for HTTP/2 and TLS."""
COMPRESSED_PEERS = ("nginx",)
"""The peers that send a file's compressed sibling. h2o 2.2 does not if Accept-Encoding has weights."""
NULL_LARGE_BYTES = 50_000
"""From this size on, `sendfile` may be the cheapest way to send."""
_LISTENING = re.compile(r"^listening on (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Competitor:
    """A server in one of its variants."""

    name: str
    kind: Kind
    start: Callable[[Launch, Condition], Running]
    takes: Callable[[Condition], bool]
    """Whether it takes part in a condition."""


def competitors() -> list[Competitor]:
    """Returns all competitors in the order of the tables: ours, peers, null."""
    return [
        *(_ours(name) for name in architectures()),
        *(_peer(peer) for peer in systems.PEERS),
        *(null_responder(variant) for variant in ("epoll", "sendfile", "ring")),
    ]


def chosen(patterns: str | None, everybody: Sequence[Competitor] | None = None) -> list[Competitor]:
    """Returns those whose names match one of the comma-separated patterns; all without patterns."""
    everybody = competitors() if everybody is None else everybody
    found = selection.chosen(patterns, everybody, "server")
    if any(each.kind == "null" for each in found):
        null_responder_path()
    return found


def _ours(name: str) -> Competitor:
    def start(launch: Launch, condition: Condition) -> Running:
        del condition
        return systems.SYSTEMS["sojourn"].start(launch.with_architecture(name))

    def takes(condition: Condition) -> bool:
        # All of them write the log in the same format, and have the same TLS and HTTP/2.
        is_same_for_all = (
            condition.access_log or condition.protocol != "http" or condition.is_arena or condition.is_start
        )
        return name == default_architecture() or not is_same_for_all

    return Competitor(name, "ours", start, takes)


def _peer(peer: systems.Server) -> Competitor:
    def start(launch: Launch, condition: Condition) -> Running:
        del condition
        return peer.start(launch)

    def takes(condition: Condition) -> bool:
        if condition.protocol != "http":
            return peer.name in SECURE_PEERS
        if condition.is_arena:
            return peer.name in COMPRESSED_PEERS
        return peer.name == REFERENCE or not condition.access_log

    return Competitor(peer.name, "peer", start, takes)


def null_responder(variant: str) -> Competitor:
    """Returns the null responder in one of its variants."""

    def start(launch: Launch, condition: Condition) -> Running:
        return start_null_responder(launch, condition, "--variant", variant)

    takes_plain: dict[str, Callable[[Condition], bool]] = {
        "epoll": lambda condition: not condition.access_log,
        "sendfile": lambda condition: condition.is_arena or condition.size_bytes >= NULL_LARGE_BYTES,
        "ring": lambda condition: not condition.access_log and not condition.is_arena,
    }

    def takes(condition: Condition) -> bool:
        return condition.protocol == "http" and not condition.is_start and takes_plain[variant](condition)

    return Competitor(f"null-{variant}", "null", start, takes)


def start_null_responder(launch: Launch, condition: Condition, *options: str) -> Running:
    """Starts the null responder with a condition's document, or with its folder."""
    document = launch.root / condition.path.lstrip("/")
    command = [str(null_responder_path()), str(document), "--connection", condition.connection, *options]
    said = launch.work / "null-responder.log"
    process = start_process(cores.pinned_command(launch.core, command), said)
    wait_until(lambda: _LISTENING.search(said.read_text()) is not None, process, "null-responder", said)
    address = _LISTENING.search(said.read_text())
    assert address is not None
    return Running(f"http://{address[1]}", " ".join(options), command, process, [process.pid])


def null_responder_path() -> Path:
    """Returns the path of the built null responder.

    Raises:
        CouldNotRun: it was not built.
    """
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "null-responder"
    if not built.is_file():
        raise CouldNotRun(f"{built} is not there", "build it: cargo build --release --package null-responder")
    return built
