"""The systems under test, one file each, and their table.

Each is a small driver that starts a real server on a folder and a core, waits until it listens, reports its processes,
and stops it. To add one, write its file and add a row to `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.failure import CouldNotRun
from sojourn.systems.apache2 import APACHE2, APACHE2_PREFORK
from sojourn.systems.caddy import CADDY
from sojourn.systems.gst_rtsp_server import GstRtspServer
from sojourn.systems.h2o import H2O
from sojourn.systems.lighttpd import LIGHTTPD
from sojourn.systems.nginx import NGINX
from sojourn.systems.nginx_proxy import NGINX_PROXY
from sojourn.systems.our_proxy import SojournProxy
from sojourn.systems.our_stream import SojournStream
from sojourn.systems.ours import Sojourn
from sojourn.systems.running import Running
from sojourn.systems.server import Certificate, Launch, Server
from sojourn.systems.squid import SQUID
from sojourn.systems.trafficserver import TRAFFIC_SERVER
from sojourn.systems.url import AlreadyRunning
from sojourn.systems.varnish import VARNISH

PEERS = (NGINX, H2O, LIGHTTPD, APACHE2, CADDY)
"""Third-party web servers, in order of how often they are compared with ours."""
PROXIES = (NGINX_PROXY, SQUID, VARNISH, TRAFFIC_SERVER)
"""Third-party caching proxies."""
_ALL: tuple[Server, ...] = (Sojourn(), *PEERS, APACHE2_PREFORK, SojournProxy(), *PROXIES)
SYSTEMS: Mapping[str, Server] = {each.name: each for each in _ALL}
STREAMING: Mapping[str, Server] = {each.name: each for each in (SojournStream(), GstRtspServer())}
"""Streaming servers for RTSP viewers."""


def find(name: str, *, streaming: bool = False) -> Server:
    """Looks up a system or streaming server by name; anything with `://` is a running server."""
    if "://" in name:
        return AlreadyRunning(name, "rtsp" if streaming else "http")
    known = STREAMING if streaming else SYSTEMS
    if name not in known:
        kind = "streaming server" if streaming else "system"
        raise CouldNotRun(f"no {kind} named {name!r}", f"one of {', '.join(known)}, or a URL")
    return known[name]


__all__ = ["PEERS", "PROXIES", "STREAMING", "SYSTEMS", "Certificate", "Launch", "Running", "Server", "find"]
