"""The competitors: our architectures that can be a proxy, the peers, and the null responder for cached responses."""

from __future__ import annotations

from benchmarks.proxy.conditions import Condition
from benchmarks.server import conditions
from benchmarks.server.competitors import Competitor, null_responder
from sojourn import systems
from sojourn.engine.description import architectures
from sojourn.systems import Launch, Running

OURS = "sojourn-proxy"


def competitors() -> list[Competitor]:
    """Returns all competitors in the order of the tables: ours, peers, null."""
    null = null_responder("epoll")
    return [
        *(_ours(name) for name in architectures("proxy")),
        *(_peer(peer) for peer in systems.PROXIES),
        Competitor(null.name, null.kind, null.start, lambda condition: _is_hit(condition)),
    ]


def _ours(name: str) -> Competitor:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        del condition
        return systems.SYSTEMS[OURS].start(launch.with_architecture(name))

    return Competitor(name, "ours", start, lambda condition: True)


def _peer(peer: systems.Server) -> Competitor:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        del condition
        return peer.start(launch)

    # The reference is nginx, here as a proxy.
    return Competitor(peer.name.removesuffix("-proxy"), "peer", start, lambda condition: _speaks(peer, condition))


def _speaks(peer: systems.Server, condition: conditions.Condition) -> bool:
    return peer.name == "nginx-proxy" or not (isinstance(condition, Condition) and condition.of == "fastcgi")


def _is_hit(condition: conditions.Condition) -> bool:
    return isinstance(condition, Condition) and condition.of == "hit"
