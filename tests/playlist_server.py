"""A small server of films by HLS for tests: one script of documents, each with what is done before it is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Document = bytes | int | Callable[[], bytes]
"""A body, the status of a refusal, or what makes the body."""
SEGMENT = b"\x47" * 40_000


def playlist(names: list[str], *, seconds: float = 1.0, first: int = 0, is_ended: bool = True) -> bytes:
    """Of segments of one length."""
    head = f"#EXTM3U\n#EXT-X-TARGETDURATION:{max(1, round(seconds))}\n#EXT-X-MEDIA-SEQUENCE:{first}\n"
    lines = "".join(f"#EXTINF:{seconds},\n{name}\n" for name in names)
    return (head + lines + ("#EXT-X-ENDLIST\n" if is_ended else "")).encode()


def after(seconds: float, body: bytes) -> Callable[[], bytes]:
    """A document that is long in coming."""

    def make() -> bytes:
        time.sleep(seconds)
        return body

    return make


class PlaylistServer(ThreadingHTTPServer):
    """Serves its documents, keeps connections, and knows what was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, documents: dict[str, Document], answers_max: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.documents, self.answers_max = documents, answers_max
        self.asked: list[tuple[str, str | None]] = []

    def url(self, path: str = "/film.m3u8") -> str:
        """Of a document."""
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


@contextmanager
def playlist_server(documents: dict[str, Document], answers_max: int | None = None) -> Iterator[PlaylistServer]:
    """A server of these documents by their paths; it closes connections, without a word, after so many answers."""
    with PlaylistServer(documents, answers_max) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Talk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PlaylistServer
    answers = 0

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append((self.path, wanted))
        found = self.server.documents.get(self.path, 404)
        body = b"" if isinstance(found, int) else found() if callable(found) else found
        status = found if isinstance(found, int) else 200
        if wanted is not None and status == 200:
            first, last = map(int, wanted.removeprefix("bytes=").split("-"))
            status, body = 206, body[first : last + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.answers += 1
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True
        self.close_connection |= self.answers == self.server.answers_max

    def log_message(self, *_: object) -> None:
        """Says nothing."""
