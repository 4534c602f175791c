"""The systems under test, one file each, and their table.

A system is a small driver: it starts a real server on a folder and a core, waits until it listens, says which
processes it is, and stops it. To add one, write its file and add its row to `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.failure import CouldNotRun
from sojourn.systems.apache2 import APACHE2, APACHE2_PREFORK
from sojourn.systems.h2o import H2O
from sojourn.systems.lighttpd import LIGHTTPD
from sojourn.systems.nginx import NGINX
from sojourn.systems.nginx_proxy import NGINX_PROXY
from sojourn.systems.our_proxy import SojournProxy
from sojourn.systems.ours import Sojourn
from sojourn.systems.running import Running
from sojourn.systems.server import Launch, Server
from sojourn.systems.squid import SQUID
from sojourn.systems.trafficserver import TRAFFIC_SERVER
from sojourn.systems.url import AlreadyRunning
from sojourn.systems.varnish import VARNISH

PEERS = (NGINX, H2O, LIGHTTPD, APACHE2)
"""Other people's servers, those first that ours are compared with most."""
PROXIES = (NGINX_PROXY, SQUID, VARNISH, TRAFFIC_SERVER)
"""Other people's caching proxies."""
_ALL: tuple[Server, ...] = (Sojourn(), *PEERS, APACHE2_PREFORK, SojournProxy(), *PROXIES)
SYSTEMS: Mapping[str, Server] = {each.name: each for each in _ALL}


def find(name: str) -> Server:
    """The system of that name; anything with `://` in it is a server that already runs."""
    if "://" in name:
        return AlreadyRunning(name)
    if name not in SYSTEMS:
        raise CouldNotRun(f"no system named {name!r}", f"one of {', '.join(SYSTEMS)}, or a URL")
    return SYSTEMS[name]


__all__ = ["PEERS", "PROXIES", "SYSTEMS", "Launch", "Running", "Server", "find"]
