"""A small streaming server for tests: one film of 20 ms packets by RTSP, for so many viewers at a time."""

from __future__ import annotations

import itertools
import re
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CLOCK_RATE = 90_000
FRAME_SECONDS = 0.02
AHEAD_FRAMES = 50
"""A second of the film is sent at once, so that a busy machine makes nobody wait."""
DESCRIPTION = (
    f"v=0\r\na=range:npt=0-600\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/{CLOCK_RATE}\r\na=control:track1\r\n"
)


class FilmServer(socketserver.ThreadingTCPServer):
    """Refuses with 453 whoever comes when as many play as it takes."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, viewers_max: int, *, plays: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.plays = plays
        self.places = threading.Semaphore(viewers_max)
        self.numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """Of its film."""
        return f"rtsp://127.0.0.1:{self.server_address[1]}/film"


@contextmanager
def film_server(viewers_max: int, *, plays: bool = True) -> Iterator[FilmServer]:
    """A server at work; one that does not play has forgotten its sessions by then."""
    with FilmServer(viewers_max, plays=plays) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Talk(socketserver.StreamRequestHandler):
    server: FilmServer

    def handle(self) -> None:
        self.has_place, self.over = False, threading.Event()
        try:
            while head := self._head():
                if not self._answer(head):
                    break
        except OSError:
            pass
        finally:
            self.over.set()
            if self.has_place:
                self.server.places.release()

    def _head(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) not in ("", "\r\n"):
            lines.append(line)
        return "".join(lines)

    def _answer(self, head: str) -> bool:
        method = head.split(" ", 1)[0]
        found = re.search(r"^CSeq: (\d+)", head, re.MULTILINE)
        assert found is not None
        status, fields, body = "200 OK", "", ""
        if method == "DESCRIBE":
            body = DESCRIPTION
        elif method == "SETUP":
            port = re.search(r"client_port=(\d+)", head)
            self.has_place = port is not None and self.server.places.acquire(blocking=False)
            if self.has_place and port is not None:
                self.media = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self.media.connect(("127.0.0.1", int(port[1])))
                own = self.media.getsockname()[1]
                fields = f"Transport: RTP/AVP;unicast;server_port={own}-{own + 1}\r\nSession: 7\r\n"
            else:
                status = "453 Not Enough Bandwidth"
        elif method == "PLAY" and not self.server.plays:
            status = "454 Session Not Found"
        elif method == "PLAY":
            threading.Thread(target=self._play, daemon=True).start()
        text = f"RTSP/1.0 {status}\r\nCSeq: {found[1]}\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}"
        self.wfile.write(text.encode())
        return method != "TEARDOWN"

    def _play(self) -> None:
        source = next(self.server.numbers)
        with self.media:
            for number in itertools.count():
                stamp = int(number * FRAME_SECONDS * CLOCK_RATE)
                packet = struct.pack("!BBHII", 0x80, 0xE0, number % 65536, stamp, source) + bytes(200)
                if number >= AHEAD_FRAMES and self.over.wait(FRAME_SECONDS):
                    return
                try:
                    self.media.send(packet)
                except OSError:
                    return
