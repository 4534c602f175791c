"""Serves the live page of one run, and sends it the run's progress as server-sent events: lines, stages, a table.

A reader gets what came before it, too. Nothing happens while no line comes: the one wake-up per second stays the only
one.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from importlib.resources import files
from string import Template
from types import TracebackType

from sojourn import __version__
from sojourn.engine.progress import ProgressLine
from sojourn.report.local_server import HTML, Exchange, LocalServer
from sojourn.report.markup import join, script

READERS_MAX = 8
"""More readers at once are refused."""
EVENTS_MAX = 7_200
"""The events that are kept for readers to come: two hours of lines."""
UPDATE_SECONDS_MIN = 0.5
"""Updates of a stage that follow sooner are left out."""


@dataclass(frozen=True)
class _Event:
    number: int
    text: str
    subject: str | None


@dataclass(frozen=True)
class _Stage:
    number: int
    name: str


class LivePage:
    """The page of one run; a context manager, called with each line of progress."""

    def __init__(self, title: str, port: int = 0) -> None:
        self._title = title
        self._events: deque[_Event] = deque(maxlen=EVENTS_MAX)
        self._changed = threading.Condition()
        self._reading = threading.BoundedSemaphore(READERS_MAX)
        self._ended = False
        self._count = 0
        self._stage = _Stage(0, "")
        self._updated = 0.0
        self._began = time.monotonic()
        self._server = LocalServer(self._answer, port, "the live page")

    @property
    def address(self) -> str:
        """The page's address, with its token."""
        return self._server.address

    def __enter__(self) -> LivePage:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._publish("end", json.dumps({"complete": error is None}))
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.__exit__(kind, error, trace)

    def __call__(self, progress: ProgressLine) -> None:
        since = round(time.monotonic() - self._began, 3)
        self._publish("progress", json.dumps({"seconds": since, **progress.model_dump(mode="json")}))

    def begin_stage(self, name: str) -> None:
        """Shows the next stage of a command that has stages."""
        self._stage = _Stage(self._stage.number + 1, name)
        self._tell_stage(None, "")
        # The first update says what it does, and may be the only one for long.
        self._updated = 0.0

    def update_stage(self, fraction: float | None, detail: str) -> None:
        """Shows how far the stage is; without a fraction only what it does."""
        if time.monotonic() >= self._updated + UPDATE_SECONDS_MIN:
            self._tell_stage(fraction, detail)

    def end_stage(self, detail: str) -> None:
        """Shows the result of the stage."""
        self._tell_stage(1.0, detail, ended=True)

    def _tell_stage(self, fraction: float | None, detail: str, *, ended: bool = False) -> None:
        self._updated = time.monotonic()
        stage = {**asdict(self._stage), "fraction": fraction, "detail": detail, "ended": ended}
        self._publish("stage", json.dumps(stage), f"stage {self._stage.number}")

    def table(self, title: str, rows: Sequence[Sequence[str]]) -> None:
        """Shows a table in place of the former one; the first row is its head."""
        self._publish("table", json.dumps({"title": title, "rows": [*map(list, rows)]}), "table")

    def _publish(self, kind: str, data: str, subject: str | None = None) -> None:
        """Sends an event; it replaces a former one of the same subject for readers to come."""
        with self._changed:
            self._count += 1
            if subject is not None:
                kept = [each for each in self._events if each.subject != subject]
                self._events = deque(kept, maxlen=EVENTS_MAX)
            text = f"id: {self._count}\nevent: {kind}\ndata: {data}\n\n"
            self._events.append(_Event(self._count, text, subject))
            self._changed.notify_all()

    def _events_after(self, count: int) -> tuple[list[str], int, bool]:
        """Waits for events beyond a number: their texts, the number of the last, and whether it was the run's last."""
        with self._changed:
            self._changed.wait_for(lambda: self._count > count or self._ended)
            return [each.text for each in self._events if each.number > count], self._count, self._ended

    def _answer(self, exchange: Exchange) -> None:
        if exchange.command != "GET":
            exchange.send_not_found()
        elif exchange.place == "/":
            exchange.send(HTTPStatus.OK, self._content(), HTML)
        elif exchange.place == "/events":
            self._send_events(exchange)
        else:
            exchange.send_not_found()

    def _send_events(self, exchange: Exchange) -> None:
        if not self._reading.acquire(blocking=False):
            exchange.send(HTTPStatus.SERVICE_UNAVAILABLE, b"too many readers\n")
            return
        try:
            last = exchange.headers.get("Last-Event-ID", "0")
            count = int(last) if last.isascii() and last.isdigit() else 0
            exchange.begin_events()
            ended = False
            while not ended:
                events, count, ended = self._events_after(count)
                exchange.wfile.write("".join(events).encode())
        except OSError:
            # The reader went away, or takes nothing any more.
            return
        finally:
            self._reading.release()

    def _content(self) -> bytes:
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
