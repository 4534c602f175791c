"""Who takes part: our architectures that can be a proxy, the peers, and the null responder for what is in memory."""

from __future__ import annotations

from benchmarks.proxy.conditions import Condition
from benchmarks.server import conditions
from benchmarks.server.contestants import Contestant, null_responder
from sojourn import systems
from sojourn.engine.description import architectures
from sojourn.systems import Launch, Running

OURS = "sojourn-proxy"


def contestants() -> list[Contestant]:
    """Everybody, in the order of the tables: ours, peers, null."""
    null = null_responder("epoll")
    return [
        *(_ours(name) for name in architectures("proxy")),
        *(_peer(peer) for peer in systems.PROXIES),
        Contestant(null.name, null.kind, null.start, lambda condition: _is_hit(condition)),
    ]


def _ours(name: str) -> Contestant:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        del condition
        return systems.SYSTEMS[OURS].start(launch.with_architecture(name))

    return Contestant(name, "ours", start, lambda condition: True)


def _peer(peer: systems.Server) -> Contestant:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        del condition
        return peer.start(launch)

    # The reference is nginx, here as a proxy.
    return Contestant(peer.name.removesuffix("-proxy"), "peer", start, lambda condition: True)


def _is_hit(condition: conditions.Condition) -> bool:
    return isinstance(condition, Condition) and condition.of == "hit"
