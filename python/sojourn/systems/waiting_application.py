"""An application whose answers take a known time: in studies its workers are a limited station.

`python waiting_application.py --wait 20ms` listens on its standard input, as `sojourn serve --app` starts it. It
answers one request after another, waits so long for each, as for a database, and sends the file that the path names
below the document root. It speaks FastCGI, or HTTP with `--http ROOT`. The standard library is all that it needs.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from functools import partial
from pathlib import Path

PROGRAM = Path(__file__)
"""It is run as a program of its own: nothing is imported from here."""
_BEGIN, _END, _PARAMS, _STDIN, _STDOUT = 1, 3, 4, 5, 6
_KEEP = 1
_CHUNK_BYTES = 64 * 1024
_RECORD_BYTES_MAX = 60_000


class _Gone(Exception):
    """The server has closed the connection."""


class _Connection:
    """Bytes of a connection, as many as are asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = b""

    def exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            self._receive()
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def head(self) -> str:
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head.decode("latin-1")

    def send(self, content: bytes) -> None:
        self._socket.sendall(content)

    def _receive(self) -> None:
        more = self._socket.recv(_CHUNK_BYTES)
        if not more:
            raise _Gone
        self._received += more


def _variables(pairs: bytes) -> dict[bytes, bytes]:
    found, at = {}, 0
    while at < len(pairs):
        lengths = []
        for _ in range(2):
            size = 1 if pairs[at] < 128 else 4
            lengths.append(int.from_bytes(pairs[at : at + size], "big") & 0x7FFF_FFFF)
            at += size
        name, value = lengths
        found[pairs[at : at + name]] = pairs[at + name : at + name + value]
        at += name + value
    return found


def _record(kind: int, content: bytes) -> bytes:
    return bytes([1, kind, 0, 1]) + len(content).to_bytes(2, "big") + b"\0\0" + content


def _by_fastcgi(connection: _Connection, wait_seconds: float) -> bool:
    """Answers a request; whether the connection stays."""
    keeps, pairs = False, b""
    while True:
        header = connection.exactly(8)
        content = connection.exactly(int.from_bytes(header[4:6], "big"))
        connection.exactly(header[6])
        if header[1] == _BEGIN:
            keeps = bool(content[2] & _KEEP)
        elif header[1] == _PARAMS:
            pairs += content
        elif header[1] == _STDIN and not content:
            break
    told = _variables(pairs)
    path = told.get(b"DOCUMENT_ROOT", b"").decode() + told.get(b"DOCUMENT_URI", b"").decode()
    time.sleep(wait_seconds)
    content = Path(path).read_bytes()
    output = f"Content-Type: application/octet-stream\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    parts = (output[at : at + _RECORD_BYTES_MAX] for at in range(0, len(output), _RECORD_BYTES_MAX))
    connection.send(b"".join(_record(_STDOUT, part) for part in parts) + _record(_END, bytes(8)))
    return keeps


def _by_http(connection: _Connection, wait_seconds: float, root: Path) -> bool:
    target = connection.head().split(" ", 2)[1]
    time.sleep(wait_seconds)
    content = (root / target.lstrip("/")).read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.send(head.encode() + content)
    return True


def main() -> None:
    """Serves until it is ended."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    wait_seconds = float(options.get("--wait", "0ms").removesuffix("ms")) / 1000
    root = options.get("--http")
    answer = _by_fastcgi if root is None else partial(_by_http, root=Path(root))
    listener = socket.socket(fileno=os.dup(0))
    while True:
        accepted, _ = listener.accept()
        with accepted:
            connection = _Connection(accepted)
            try:
                while answer(connection, wait_seconds):
                    pass
            except (_Gone, ConnectionError):
                continue


if __name__ == "__main__":
    main()
