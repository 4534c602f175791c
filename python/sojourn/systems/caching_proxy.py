"""Caching proxies of the distribution, and the origin behind any proxy under test.

All keep what they store in memory, as much of it as ours, and write no log. A proxy that is told no upstream gets our
own server of the folder, on a core that is not the proxy's. That origin lets everything be kept, but for files whose
names end in `.uncached`: so a study sets the hit ratio by the weights of its files.
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
"""What each may keep."""
OBJECT_BYTES_MAX = 8 << 20
"""The largest answer that is kept, as ours has it."""
ORIGIN_ARCHITECTURE = "amped"
KEPT = "max-age=86400"
NOT_KEPT = "uncached=no-store"


@dataclass(frozen=True)
class CachingProxy(Configured):
    """A proxy with a configuration file; texts may also use `$upstream_host`, `$upstream_port` and the sizes."""

    def start(self, launch: Launch) -> Running:
        if launch.access_log:
            raise CouldNotRun(f"{self.name} writes no access log here", "measure it without")
        # Whether it is installed is known before an origin is started for nothing.
        self._program()
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
    """Starts a proxy by `start`; before it its origin, if it has none, which stops with it."""
    if launch.upstream is not None:
        return start(launch)
    work = launch.work / "origin"
    work.mkdir(exist_ok=True)
    options = ("--cache-control", KEPT, "--cache-control", NOT_KEPT)
    origin = Sojourn().start(Launch(launch.root, work, launch.upstream_core, ORIGIN_ARCHITECTURE, options=options))
    try:
        proxy = start(replace(launch, upstream=origin.url))
    except BaseException:
        origin.stop()
        raise
    proxy.behind = origin
    return proxy
