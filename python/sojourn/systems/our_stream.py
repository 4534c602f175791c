"""Our own streaming server."""

from __future__ import annotations

from sojourn.systems.ours import start_engine
from sojourn.systems.running import Running
from sojourn.systems.server import Launch


class SojournStream:
    """`sojourn-engine stream`."""

    name = "sojourn"
    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it on a free port."""
        return start_engine(launch, ["stream", str(launch.root)], launch.work / "sojourn-stream.log", "rtsp")
