"""The statistics of a MariaDB of our own: a lock that is waited for, a transaction that is left open, its end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sojourn.failure import CouldNotRun
from sojourn.tiers.database import Activity
from sojourn.tiers.mysql import Session

SERVER = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
TIMEOUT_SECONDS = 10.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None or shutil.which("mariadb") is None, reason="needs Debian's mariadb-server"),
]


class MariaDb:
    """A server with one table."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "socket"
        user = pwd.getpwuid(os.getuid()).pw_name
        data = ["--no-defaults", f"--datadir={folder / 'data'}", f"--user={user}"]
        install = ["mariadb-install-db", *data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, capture_output=True)
        assert SERVER is not None
        small = ["--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M", "--skip-networking"]
        words = [SERVER, *data, f"--socket={self.socket}", f"--pid-file={folder / 'pid'}", *small]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not self.socket.exists():
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.05)
        self.client("CREATE DATABASE shop; CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT) ENGINE=InnoDB;"
                    " INSERT INTO shop.stock VALUES (1, 5)").wait()  # fmt: skip

    @property
    def options(self) -> str:
        return f"--no-defaults --socket={self.socket} --user=root"

    def client(self, statements: str, *, stays: bool = False) -> subprocess.Popen[str]:
        """A client that makes the statements, and then ends or stays."""
        words = ["mariadb", *self.options.split(), "--batch"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
        assert process.stdin is not None
        process.stdin.write(statements + ";\n")
        process.stdin.flush()
        if not stays:
            process.stdin.close()
        return process


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    # The path of a socket has to be short.
    made = MariaDb(tmp_path_factory.mktemp("m"))
    yield made
    made.process.kill()
    made.process.wait()


def until(session: Session, holds: Callable[[Activity], bool]) -> Activity:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds(found := session.activity()):
        assert time.monotonic() < end, found
        # InnoDB shows its transactions anew only after they were not asked for during 0.1 s.
        time.sleep(0.25)
    return found


def test_waits_for_locks_and_open_transactions_are_seen_and_a_server_that_dies_is_named(server: MariaDb) -> None:
    with Session(server.options) as session:
        assert session.activity() == session.activity()
        owner = server.client("USE shop; BEGIN; UPDATE stock SET n = n - 1 WHERE id = 1", stays=True)
        seen = until(session, lambda found: found.in_transaction == 1)
        assert (seen.backends, seen.active, seen.waits) == (1, 0, {})
        assert seen.connections_max > 10
        waiter = server.client("USE shop; UPDATE stock SET n = n - 1 WHERE id = 1", stays=True)
        seen = until(session, lambda found: found.waits == {"Lock": 1})
        assert (seen.backends, seen.active, seen.in_use) == (2, 1, 2)
        for process in (owner, waiter):
            process.kill()
            process.wait()
        server.process.kill()
        server.process.wait()
        with pytest.raises(CouldNotRun, match="MySQL says nothing of itself"):
            session.activity()


def test_a_server_that_is_not_there_is_named_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match="nothing of itself") as refused, Session(f"--socket={tmp_path / 'none'}"):
        pass
    assert "--mysql" in str(refused.value.hint)
