"""Serves the live page of one run on 127.0.0.1, and sends it the run's progress as server-sent events.

The address has a token, so that other users of the machine and pages of other sites see nothing. A reader gets what
came before it, too. Nothing happens while no line comes: the one wake-up per second stays the only one.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections import deque
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from string import Template
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from sojourn import __version__
from sojourn.engine.progress import ProgressLine
from sojourn.failure import CouldNotRun
from sojourn.report.markup import join, script

HOST = "127.0.0.1"
READERS_MAX = 8
"""More readers at once are refused."""
EVENTS_MAX = 7_200
"""The events that are kept for readers to come: two hours of lines."""
SEND_SECONDS_MAX = 5.0
"""A reader that takes no data for this long is left."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class LivePage:
    """The page of one run; a context manager, called with each line of progress."""

    def __init__(self, title: str, port: int = 0) -> None:
        self._title = title
        self._token = secrets.token_urlsafe(16)
        self._events: deque[tuple[int, str]] = deque(maxlen=EVENTS_MAX)
        self._changed = threading.Condition()
        self._ended = False
        self._count = 0
        self._began = time.monotonic()
        try:
            self._server = _Server((HOST, port), self)
        except OSError as error:
            raise CouldNotRun(
                f"cannot serve the live page on port {port}: {error.strerror}", "give another --web-port"
            ) from error

    @property
    def address(self) -> str:
        """The page's address, with its token."""
        return f"http://{HOST}:{self._server.server_port}/?token={self._token}"

    def __enter__(self) -> LivePage:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._publish("end", json.dumps({"complete": error is None}))
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def __call__(self, progress: ProgressLine) -> None:
        since = round(time.monotonic() - self._began, 3)
        self._publish("progress", json.dumps({"seconds": since, **progress.model_dump(mode="json")}))

    def _publish(self, kind: str, data: str) -> None:
        with self._changed:
            self._count += 1
            self._events.append((self._count, f"id: {self._count}\nevent: {kind}\ndata: {data}\n\n"))
            self._changed.notify_all()

    def events_after(self, count: int) -> tuple[list[str], int, bool]:
        """Waits for events beyond a number: their texts, the number of the last, and whether it was the run's last."""
        with self._changed:
            self._changed.wait_for(lambda: self._count > count or self._ended)
            return [text for number, text in self._events if number > count], self._count, self._ended

    def knows(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def content(self) -> bytes:
        """The page."""
        report = files("sojourn.report")
        return (
            Template(report.joinpath("live/page.html").read_text())
            .substitute(
                style=report.joinpath("plot.css").read_text() + report.joinpath("report.css").read_text(),
                title=join(self._title),
                drawing=script("drawing.js"),
                script=script("live/live.js"),
                version=join(__version__),
            )
            .encode()
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A reader that is still there must not keep the command from ending.
    block_on_close = False

    def __init__(self, address: tuple[str, int], page: LivePage) -> None:
        self.page = page
        self.reading = threading.BoundedSemaphore(READERS_MAX)
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SEND_SECONDS_MAX
    protocol_version = "HTTP/1.1"
    server_version = "sojourn"
    sys_version = ""

    def do_GET(self) -> None:
        """The page and its events; everything else is not found."""
        asked = urlsplit(self.path)
        token = parse_qs(asked.query).get("token", [""])[0]
        # A page of another site that made its name resolve to this address sends that name.
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (HOST, "localhost") or not self.server.page.knows(token):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"open the address that the command printed\n")
        elif asked.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page.content())
        elif asked.path == "/events":
            self._events()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")

    def _events(self) -> None:
        if not self.server.reading.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"too many readers\n")
            return
        try:
            last = self.headers.get("Last-Event-ID", "0")
            count = int(last) if last.isascii() and last.isdigit() else 0
            self._head(HTTPStatus.OK, "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            ended = False
            while not ended:
                events, count, ended = self.server.page.events_after(count)
                self.wfile.write("".join(events).encode())
        except OSError:
            # The reader went away, or takes nothing any more.
            return
        finally:
            self.close_connection = True
            self.server.reading.release()

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self._head(status, kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is the command's."""
