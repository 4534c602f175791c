"""A small application with logins: a form with a token, cookies, redirections, JSON; what it was asked is kept.

As a program, `python3 shop_server.py 127.0.0.1:8000`, it is the application of the documents' scenarios.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class Shop(ThreadingHTTPServer):
    """What it knows of its visitors."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, field: str = "token", greeting: str = "Hello") -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.field, self.greeting = field, greeting
        """The form's hidden field, and how visitors are greeted."""
        self.lock = threading.Lock()
        self.tokens: dict[str, str] = {}
        """Of a session that is not logged in."""
        self.names: dict[str, str] = {}
        self.logins: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.bought: list[tuple[str, int]] = []
        self.refuses_logins = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def shop() -> Iterator[Shop]:
    """The application, until the block ends."""
    server = Shop()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Shop
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self._count(path)
        if path == "/login":
            session, token = secrets.token_hex(8), secrets.token_urlsafe(12) + "&<"
            self.server.tokens[session] = token
            escaped = token.replace("&", "&amp;").replace("<", "&lt;")
            field = f'<input type="hidden" name="{self.server.field}" value="{escaped}">'
            form = f'<form method="post">{field}</form>'
            self._answer(200, form, {"Set-Cookie": f"session={session}; Path=/; HttpOnly"})
        elif path == "/home":
            self._answer(200, f"{self.server.greeting} {self._name()}" + "x" * secrets.randbelow(300))
        elif path in ("/", "/search"):
            self._answer(200, "a shop")
        elif path == "/old":
            self._answer(301, "", {"Location": "home"})
        elif path == "/api/items":
            items = {"items": [{"id": number} for number in range(3)]}
            timing = 'db;dur=12, app;desc="all, with db";dur=20, miss'
            self._answer(200, json.dumps(items), {"Content-Type": "application/json", "Server-Timing": timing})
        elif path == "/loop":
            self._answer(302, "", {"Location": "/loop"})
        else:
            self._answer(404, "")

    def do_POST(self) -> None:
        self._count(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        if self.path == "/login":
            self._log_in({name: values[0] for name, values in parse_qs(body).items()})
        elif self.path == "/api/cart" and self._name() is not None:
            with self.server.lock:
                self.server.bought.append((str(self._name()), json.loads(body)["id"]))
            self._answer(201, '{"ok": true}')
        else:
            self._answer(401, "")

    def _log_in(self, form: dict[str, str]) -> None:
        session = self._session()
        expected = self.server.tokens.pop(session, None)
        is_known = form.get("password") == f"pw {form.get('name')}" and not self.server.refuses_logins
        if expected is None or form.get(self.server.field) != expected or not is_known:
            self._answer(403, "")
            return
        fresh = secrets.token_hex(8)
        with self.server.lock:
            self.server.names[fresh] = form["name"]
            self.server.logins[form["name"]] += 1
        self._answer(303, "", {"Location": "/home", "Set-Cookie": f"session={fresh}; Path=/"})

    def _session(self) -> str:
        cookies = dict(pair.split("=", 1) for pair in self.headers.get("Cookie", "").split("; ") if "=" in pair)
        return cookies.get("session", "")

    def _name(self) -> str | None:
        return self.server.names.get(self._session())

    def _count(self, path: str) -> None:
        with self.server.lock:
            self.server.asked[path] += 1

    def _answer(self, status: int, body: str, fields: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    Shop(int(sys.argv[1].rpartition(":")[2]), "csrf_token", "Welcome").serve_forever()
