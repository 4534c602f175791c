"""Serves pages of this machine on 127.0.0.1, to who has the token of their address.

Other users of the machine and pages of other sites see nothing: a request needs the token and the server's own name.
Nothing happens while no request comes.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from sojourn.failure import CouldNotRun

HOST = "127.0.0.1"
SEND_SECONDS_MAX = 5.0
"""A reader that takes no data for this long is left."""
BODY_BYTES_MAX = 4 << 20
"""The largest body of a request: a system file in JSON."""
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What a page may load, unless it is sent with another policy."""


class LocalServer:
    """A server whose requests `answer` answers, each in a thread of its own; a context manager."""

    def __init__(self, answer: Callable[[Exchange], None], port: int, what: str) -> None:
        self.answer = answer
        self._token = secrets.token_urlsafe(16)
        try:
            self._server = _Server((HOST, port), self)
        except OSError as error:
            raise CouldNotRun(f"cannot serve {what} on port {port}: {error.strerror}", "give another port") from error

    @property
    def address(self) -> str:
        """The address of the first page, with the token."""
        return f"http://{HOST}:{self._server.server_port}/?token={self._token}"

    def __enter__(self) -> LocalServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def knows(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self._token.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A reader that is still there must not keep the command from ending.
    block_on_close = False

    def __init__(self, address: tuple[str, int], local: LocalServer) -> None:
        self.local = local
        super().__init__(address, Exchange)

    def handle_error(self, request: object, client_address: object) -> None:
        # A browser that goes away is none.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Exchange(BaseHTTPRequestHandler):
    """A request, and the ways to answer it."""

    server: _Server
    timeout = SEND_SECONDS_MAX
    protocol_version = "HTTP/1.1"
    server_version = "sojourn"
    sys_version = ""

    place = "/"
    """The path of the request."""
    token = ""

    def do_GET(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def _handle(self) -> None:
        # A page of another site that made its name resolve to this address sends that name.
        try:
            asked, host = urlsplit(self.path), urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            self.close_connection = True
            self.send(HTTPStatus.BAD_REQUEST, b"that is no address\n")
            return
        self.place = asked.path
        self._fields = parse_qs(asked.query)
        self.token = self.field("token")
        if host not in (HOST, "localhost") or not self.server.local.knows(self.token):
            # A body is not read, so the connection is of no further use.
            self.close_connection = True
            self.send(HTTPStatus.FORBIDDEN, b"open the address that the command printed\n")
            return
        self.server.local.answer(self)

    def field(self, name: str) -> str:
        """A field of the query; empty if it is missing."""
        return self._fields.get(name, [""])[0]

    def body(self) -> bytes | None:
        """The body of the request; None if it has none, is too large, or is cut short."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            return None
        content = self.rfile.read(int(length))
        return content if len(content) == int(length) else None

    def send(self, status: HTTPStatus, content: bytes, kind: str = "text/plain", policy: str = POLICY) -> None:
        """Answers with this content."""
        self._head(status, kind, policy)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_not_found(self) -> None:
        """Answers that there is nothing here."""
        # A body that came with it was not read.
        self.close_connection = self.close_connection or self.command != "GET"
        self.send(HTTPStatus.NOT_FOUND, b"not found\n")

    def begin_events(self) -> None:
        """Begins an answer of server-sent events, which the caller writes; the connection ends with it."""
        self.close_connection = True
        self._head(HTTPStatus.OK, "text/event-stream", POLICY)
        self.send_header("Connection", "close")
        self.end_headers()

    def _head(self, status: HTTPStatus, kind: str, policy: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is the command's."""
