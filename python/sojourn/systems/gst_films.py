"""GStreamer's RTSP server for the films of a folder, set up like its examples: gst_films.py FOLDER ADDRESS PORT.

It is a separate program, because the system's Python has the bindings.
"""

import sys
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

PIPELINE = (
    "( filesrc location={film} ! qtdemux name=d"
    " d.video_0 ! queue ! h264parse config-interval=-1 ! rtph264pay name=pay0 pt=96"
    " d.audio_0 ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97 )"
)


def main() -> None:
    """Serves until the process is stopped."""
    folder, address, port = sys.argv[1:]
    Gst.init(None)
    server = GstRtspServer.RTSPServer.new()
    server.set_address(address)
    server.set_service(port)
    for film in Path(folder).glob("*.mp4"):
        factory = GstRtspServer.RTSPMediaFactory.new()
        # Each client has its own pipeline: it sees the film from its start.
        factory.set_launch(PIPELINE.format(film=film))
        server.get_mount_points().add_factory(f"/{film.name}", factory)
    server.attach(None)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
