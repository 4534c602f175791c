"""Our own caching proxy, in any architecture that supports it."""

from __future__ import annotations

from sojourn.systems.caching_proxy import MEMORY_BYTES, with_origin
from sojourn.systems.ours import of_architecture, start_engine
from sojourn.systems.running import Running
from sojourn.systems.server import Launch


class SojournProxy:
    """`sojourn-engine proxy`."""

    name = "sojourn-proxy"
    has_architectures = True
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it on a free port."""
        return with_origin(launch, _start)


def _start(launch: Launch) -> Running:
    words = ["proxy", "--upstream", str(launch.upstream), "--cache-memory", f"{MEMORY_BYTES >> 20}MiB"]
    if str(launch.upstream).startswith("fcgi:"):
        words += ["--fastcgi-root", str(launch.root)]
    words += of_architecture(launch)
    return start_engine(launch, words, launch.work / "sojourn-proxy.log")
