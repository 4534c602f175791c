"""The load of an application as its server sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sojourn.applications.coverage import coverage
from sojourn.applications.endpoints import Endpoint
from sojourn.applications.flows import of_log
from sojourn.applications.requests import Asked, LogRequests
from sojourn.applications.scenario import Scenario
from sojourn.applications.smoke_test import smoke_test
from sojourn.applications.traffic import Traffic
from sojourn.applications.users import Users

GONE = "/orders/17"
ROWS = (
    Asked("GET", "/orders/16", 200, 6, 100),
    Asked("GET", GONE, 200, 3, 100),
    Asked("GET", "/orders/18", 200, 1, 100),
)
ENDPOINT = Endpoint("GET /orders/{id}", "GET", ROWS)
LOG = LogRequests(rows=ROWS, requests=10, beyond=0, malformed=0, duration_seconds=60, peak_requests_per_second=1)


class Orders(BaseHTTPRequestHandler):
    """One of them is somebody else's."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(404 if self.path == GONE else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_words: object) -> None:
        """Says nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def traffic(url: str, tmp_path: Path) -> Traffic:
    flows = of_log(coverage(LOG, [ENDPOINT], ("GET",)), {}, tmp_path / "targets")
    return Traffic(url, flows, Users(Scenario(), 1), tmp_path / "targets", None, 1)


def test_targets_that_answer_otherwise_than_in_the_log_are_left_out(traffic: Traffic) -> None:
    found = smoke_test(traffic)
    assert found.left_out == {ENDPOINT.name: 3}
    (said,) = found.wrong
    assert said.startswith(f"{ENDPOINT.name} {GONE}: ")
    assert "404" in said
    again = smoke_test(traffic)
    assert (again.wrong, again.left_out) == ([], {})


def test_a_step_says_when_each_of_its_requests_was_due(traffic: Traffic) -> None:
    smoke_test(traffic)
    (step,) = traffic.step({ENDPOINT.name: 200.0}, 1.0, 0.5).endpoints
    due, responses = zip(*step.each_request, strict=True)
    assert sum(0 <= each < 1 for each in due) == pytest.approx(step.requests, abs=1)
    assert list(due) == sorted(due)
    assert -0.6 < min(due) < -0.2, "what was due while it settled is there, too"
    assert max(due) < 1.01
    measured = [response for each, response in step.each_request if 0 <= each < 1 and response is not None]
    assert sum(measured) / len(measured) == pytest.approx(step.mean_seconds, rel=0.05)
    assert None not in responses
    assert step.failures == 0
