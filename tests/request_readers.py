"""Three readers of HTTP/1 requests: the crate's parser, h11, and llhttp through httptools.

Each is given the bytes of a connection and answers with the first request, as it read it, or why there is none.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import h11
import httptools

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Message:
    """A request as a parser read it."""

    method: bytes
    target: bytes
    minor_version: int
    content: bytes
    rest: bytes


Outcome = Message | str
"""A request, `partial`, or why it is refused."""


class Ours:
    """The crate's parser, behind `crates/http/examples/read_requests.rs`."""

    def __init__(self) -> None:
        command = ["cargo", "run", "--quiet", "--locked", "--package", "sojourn-http", "--example", "read_requests"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, data: bytes) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(data.hex() + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[0] != "request":
            return answer[-1]
        method, target, minor, _keep_alive, content, rest = answer[1:]
        target, content, rest = (b"" if text == "-" else bytes.fromhex(text) for text in (target, content, rest))
        return Message(method.encode(), target, int(minor), content, rest)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def read_h11(data: bytes) -> Outcome:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request, content = None, b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            return str(error)
        if isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            content += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            minor = int(request.http_version[-1:])
            return Message(request.method, request.target, minor, content, connection.trailing_data[0])
        else:
            return "partial"


class Collector:
    """What llhttp calls."""

    def __init__(self) -> None:
        self.target = self.content = b""
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        if not self.is_complete:
            self.target += url

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.content += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def read_llhttp(data: bytes) -> Outcome:
    """Byte by byte, which tells what it leaves of the bytes."""
    collector = Collector()
    parser = httptools.HttpRequestParser(collector)
    for index in range(len(data)):
        try:
            parser.feed_data(data[index : index + 1])
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            if not collector.is_complete:
                return str(error)
        if collector.is_complete:
            minor = int(parser.get_http_version()[-1])
            return Message(parser.get_method(), collector.target, minor, collector.content, data[index + 1 :])
    return "partial"
