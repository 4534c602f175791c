"""The application's own figures: `Server-Timing` with each answer, and `/metrics` in Prometheus' text format.

Each worker process counts for itself and writes its totals to a file in a shared folder, at most `WRITES_SECONDS` after
they changed. The worker that answers a request for `/metrics` adds them up.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

from flask import Flask, Response, g, request

from .database import Database

WRITES_SECONDS = 0.2
"""The longest time from a change of a worker's totals to their next write."""


class Metrics:
    """The totals of one worker process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._folder = Path(os.environ["SHOP_METRICS"])
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()
        self._busy = 0
        self._write_due = False

    def attach(self, application: Flask) -> None:
        """Counts every request of the application."""
        application.before_request(self._begin)
        application.after_request(self._told)
        application.teardown_request(self._end)
        application.add_url_rule("/metrics", view_func=self._show)

    def _begin(self) -> None:
        g.begin = time.perf_counter()
        with self._lock:
            self._busy += 1

    def _told(self, response: Response) -> Response:
        parts = {"app": time.perf_counter() - g.begin}
        parts |= {name: g.get(f"{name}_seconds", 0.0) for name in ("database", "pool", "external")}
        response.headers["Server-Timing"] = ", ".join(
            f"{name};dur={seconds * 1000:.2f}" for name, seconds in parts.items()
        )
        endpoint = request.endpoint or "none"
        with self._lock:
            self._totals[f'shop_requests_total{{endpoint="{endpoint}",status="{response.status_code}"}}'] += 1
            self._totals[f'shop_request_seconds_total{{endpoint="{endpoint}"}}'] += parts["app"]
            for name in ("database", "pool", "external"):
                self._totals[f"shop_{name}_seconds_total"] += parts[name]
        return response

    def _end(self, _error: BaseException | None) -> None:
        with self._lock:
            self._busy -= 1
            if self._write_due:
                return
            self._write_due = True
        timer = threading.Timer(WRITES_SECONDS, self._write)
        timer.daemon = True
        timer.start()

    def _show(self) -> Response:
        self._write()
        totals: Counter[str] = Counter()
        for path in self._folder.glob("*.json"):
            if Path(f"/proc/{path.stem}").exists():
                totals.update(json.loads(path.read_text()))
        text = "".join(f"{name} {value:g}\n" for name, value in sorted(totals.items()))
        return Response(text, mimetype="text/plain")

    def _write(self) -> None:
        with self._lock:
            self._write_due = False
            pool = {f"shop_pool_{name}": value for name, value in self._database.usage().items()}
            known = {**self._totals, **pool, "shop_threads_busy": self._busy}
            partial = self._folder / f"{os.getpid()}.partial"
            partial.write_text(json.dumps(known))
            partial.rename(partial.with_suffix(".json"))
