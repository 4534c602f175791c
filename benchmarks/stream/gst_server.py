"""GStreamer's RTSP server for one film, as its examples set it up: gst_server.py FILM PORT."""

# The system's Python has the bindings; ours need not.
import sys

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
    """Serves until somebody ends it."""
    film, port = sys.argv[1:]
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory.new()
    factory.set_launch(PIPELINE.format(film=film))
    server = GstRtspServer.RTSPServer.new()
    server.set_address("127.0.0.1")
    server.set_service(port)
    server.get_mount_points().add_factory("/film", factory)
    # Each client has a pipeline of its own: all see the film from where they begin.
    server.attach(None)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
