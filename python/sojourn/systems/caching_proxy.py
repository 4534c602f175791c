"""Caching proxies of the distribution, and the origin server behind any proxy under test.

All cache in memory, with the same size as ours, and write no log. A proxy without a given upstream gets our own server
for the folder, on another core. That origin allows caching of everything except files with names ending in
`.uncached`, so that a study sets the hit ratio by the weights of its files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from sojourn.failure import CouldNotRun
from sojourn.systems.configured import Configured
from sojourn.systems.ours import Sojourn
from sojourn.systems.running import Running
from sojourn.systems.server import Launch

MEMORY_BYTES = 256 << 20
"""The cache size of each proxy."""
OBJECT_BYTES_MAX = 8 << 20
"""The largest object cached, as in our proxy."""
ORIGIN_ARCHITECTURE = "amped"
KEPT = "max-age=86400"
NOT_KEPT = "uncached=no-store"


@dataclass(frozen=True)
class CachingProxy(Configured):
    """A proxy with a configuration file; templates may also use `$upstream_host`, `$upstream_port` and the sizes."""

    asks_upstream = True

    def start(self, launch: Launch) -> Running:
        # Before an origin is started in vain.
        self._program_for(launch)
        return with_origin(launch, super().start)

    def _values(self, launch: Launch, port: int) -> dict[str, str]:
        assert launch.upstream is not None, "it was given one, or an origin was started"
        upstream = urlsplit(launch.upstream)
        return {
            **super()._values(launch, port),
            "upstream_host": str(upstream.hostname),
            "upstream_port": str(upstream.port),
            "memory_bytes": str(MEMORY_BYTES),
            "object_bytes": str(OBJECT_BYTES_MAX),
        }


def with_origin(launch: Launch, start: Callable[[Launch], Running]) -> Running:
    """Starts a proxy by `start`, with an origin first if it has none, which stops with it.

    Raises:
        CouldNotRun: its content is elsewhere, and no HTTP server; or something did not start.
    """
    if launch.content is not None and launch.upstream is None:
        raise CouldNotRun(f"a proxy cannot read {launch.content}", "let it ask an HTTP server")
    if launch.upstream is not None:
        return start(launch)
    work = launch.work / "origin"
    work.mkdir(exist_ok=True)
    options = ("--cache-control", KEPT, "--cache-control", NOT_KEPT)
    origin = Sojourn().start(Launch(launch.root, work, launch.upstream_core, ORIGIN_ARCHITECTURE, options=options))
    return origin.before(lambda: start(replace(launch, upstream=origin.url)))
