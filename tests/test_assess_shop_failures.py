"""What an assessment says of a log, a login or a target that is wrong, and of a database that dies.

No figure decides here, so other tests may run beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.assessed_shop import LOGIN, login, status, words
from tests.conftest import SOJOURN, run, wait_for_steps
from tests.shop import needs_shop

pytestmark = [needs_shop, pytest.mark.slow]
__all__ = ["login", "status"]


def test_a_target_that_answers_otherwise_than_the_log_says_is_no_knee(status: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    line = '10.0.0.1 - - [21/Nov/2026:10:00:{:02d} +0000] "GET /nowhere/{} HTTP/1.1" 200 100\n'
    log.write_text("".join(line.format(second, second) for second in range(60)))
    done = run(*words({**status, "log": str(log)}, tmp_path / "run"))
    assert done.returncode == 2, done.stdout
    assert "status_4xx" in done.stderr
    assert "was answered 404" in done.stderr


def test_a_login_that_fails_is_said_with_what_was_answered(status: dict[str, Any], login: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "login.toml"
    (tmp_path / "users.csv").write_text("name,password\nuser1,wrong\n")
    wrong.write_text(LOGIN)
    done = run(*words(status, tmp_path / "run", "--login", str(wrong)))
    assert done.returncode == 2, done.stdout
    assert "POST /login was answered 401" in done.stderr
    (tmp_path / "users.csv").write_text("name,password\nuser1,shop\n")
    wrong.write_text(LOGIN.replace('input = "token"', 'input = "csrf"'))
    done = run(*words(status, tmp_path / "run", "--login", str(wrong)))
    assert done.returncode == 2, done.stdout
    assert 'the form field "csrf" is missing, so nothing can be taken' in done.stderr
    assert "the page has changed" in done.stderr


def test_a_target_that_cannot_be_spoken_with_is_said_with_the_cure(status: dict[str, Any], tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        done = run(*words({**status, "url": nowhere}, tmp_path / "run"))
    assert done.returncode == 2, done.stdout
    assert "connect_refused" in done.stderr
    assert "is the application running?" in done.stderr
    done = run(*words({**status, "url": status["url"].replace("http:", "https:")}, tmp_path / "run"))
    assert done.returncode == 2, done.stdout
    assert "tls_failed" in done.stderr


def test_a_database_that_dies_ends_the_assessment_with_what_was_measured(
    status: dict[str, Any], tmp_path: Path
) -> None:
    slo = ["--slo", "pages: p95 < 20s", "--at-rate", "2"]
    command = [str(SOJOURN), *words(status, tmp_path / "run", "--max-rate", "16", *slo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_steps(process, tmp_path / "run", 1)
        os.kill(status["tiers"]["database"]["pid"], signal.SIGQUIT)
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "INCOMPLETE" in output
    found = json.loads((tmp_path / "run" / "application.json").read_text())
    assert found["steps"]
    assert found["objectives"][0]["holds"] is None
    assert "not decided" in output
