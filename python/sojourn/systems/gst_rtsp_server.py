"""GStreamer's streaming server, run by the system's Python because it has the bindings."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running, accepts, free_port, start_process, wait_until
from sojourn.systems.server import LOOPBACK, Launch

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("gst_films.py")
_VERSION = (
    "import gi; gi.require_version('GstRtspServer', '1.0'); gi.require_version('Gst', '1.0');"
    "from gi.repository import Gst, GstRtspServer; print(Gst.version_string().split()[-1])"
)


class GstRtspServer:
    """gst-rtsp-server with a pipeline per viewer."""

    name = "gst-rtsp-server"
    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it on a free port."""
        if launch.access_log or launch.options:
            raise CouldNotRun(f"{self.name} writes no access log and takes no options here", "measure it without")
        version, port = installed_version(), free_port()
        command = [PYTHON, str(PROGRAM), str(launch.root.resolve()), launch.address, str(port)]
        said = launch.work / f"{self.name}.log"
        process = start_process(launch.command(command), said)
        wait_until(lambda: accepts(port), process, self.name, said)
        return Running(f"rtsp://{LOOPBACK}:{port}", version, command, process, [process.pid])


def installed_version() -> str:
    """GStreamer's version.

    Raises:
        CouldNotRun: GStreamer, its RTSP server or their bindings are not installed.
    """
    try:
        done = subprocess.run([PYTHON, "-c", _VERSION], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CouldNotRun(f"{PYTHON} cannot run: {error.strerror}", "it has GStreamer's bindings") from error
    if done.returncode != 0:
        packages = "python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
        raise CouldNotRun("gst-rtsp-server is not installed", f"on Debian or Ubuntu: apt-get install {packages}")
    return done.stdout.strip()
