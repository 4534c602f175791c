"""Changes that are carried out: the command, the measurement, and the way back, whatever fails."""

from __future__ import annotations

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sojourn.applications.climb import Climb, Interrupted
from sojourn.applications.summary import VerifiedChange
from sojourn.applications.verification import execution, planned
from sojourn.applications.verification.execution import Carrying
from sojourn.tiers.declaration import Tier
from sojourn.tiers.watch import Sources

TIERS = [Tier.parse("app=port:8000")]


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(certificate: Path | None = None) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(execution, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(execution, "ANSWER_SECONDS_MAX", 0.5)
    monkeypatch.setattr(execution, "_climb", lambda *_: None)
    with answering() as url:
        yield url


def carried_out(target: str, command: str, restore: str) -> VerifiedChange:
    climb = cast(Climb, SimpleNamespace(told=lambda *_: None))
    carrying = Carrying(climb, 100.0, None, [], TIERS, Sources(), target, restore)
    made = VerifiedChange(setting="app.workers=8->16", what="workers", command=command)
    execution.measure(carrying, planned.parse(f"app.workers=8->16: {command}", [], TIERS), made)
    return made


def test_a_command_that_fails_halfway_is_undone(target: str, tmp_path: Path) -> None:
    changed, restored = tmp_path / "changed", tmp_path / "restored"
    made = carried_out(target, f"touch {changed}; false", f"touch {restored}")
    assert made.not_measured_because is not None
    assert "failed with code 1" in made.not_measured_because
    assert changed.exists()
    assert restored.exists()
    assert made.not_restored_because is None


def test_what_could_not_be_undone_is_said(target: str) -> None:
    made = carried_out(target, "true", "false")
    assert made.not_measured_because is None
    assert made.not_restored_because is not None
    assert "the system is not as it was before: 'false' failed" in execution.in_words(made)


def test_an_interruption_is_not_lost_to_a_way_back_that_fails(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted("interrupted")

    monkeypatch.setattr(execution, "_climb", interrupted)
    with pytest.raises(Interrupted):
        carried_out(target, "true", "false")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_target_with_a_certificate_of_its_own_is_waited_for_like_any_other(target: str, tmp_path: Path) -> None:
    pem = tmp_path / "both.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*made.split(), "-keyout", pem, "-out", tmp_path / "own.pem"], check=True, capture_output=True)
    pem.write_text(pem.read_text() + (tmp_path / "own.pem").read_text())
    with answering(pem) as secure:
        assert carried_out(secure, "true", "true").not_measured_because is None
    gone = carried_out(secure, "true", "true")
    assert gone.not_measured_because is not None
    assert "does not answer" in gone.not_measured_because
