"""The origin behind the proxies: starts the null responder, and counts the connections to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.proxy.conditions import CACHE_CONTROL, Condition
from benchmarks.server.competitors import start_null_responder
from sojourn.systems import Launch, Running

# The states of /proc/net/tcp, include/net/tcp_states.h.
_TIME_WAIT = "06"
_LISTEN = "0A"


def start(site: Path, work: Path, core: int | None, condition: Condition) -> Running:
    """Starts an origin that answers everything with the condition's document, on the generator's core."""
    work.mkdir()
    launch = Launch(site, work, core, "")
    options = ["--cache-control", CACHE_CONTROL[condition.of]]
    if condition.of != "fastcgi":
        return start_null_responder(launch, condition, *options)
    application = start_null_responder(launch, condition, *options, "--variant", "fastcgi")
    return replace(application, url=application.url.replace("http:", "fcgi:", 1))


def connections(origin: Running) -> int:
    """Returns the number of connections to it within the last minute, from the kernel's table.

    An open connection has an entry on each side; the origin's is counted. Of an ended connection, the side that closed
    first keeps an entry for a minute (TIME_WAIT).
    """
    port = urlsplit(origin.url).port
    found = 0
    # A cell may have its own network namespace, which is this thread's.
    for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state = line.split()[:4]
        is_origins = _port(local) == port
        found += (is_origins and state != _LISTEN) or (_port(remote) == port and state == _TIME_WAIT)
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
