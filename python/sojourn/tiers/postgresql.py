"""Samples PostgreSQL's statistics with `psql`: active backends, waiting backends, and what they wait for.

It uses one connection with a query on `pg_stat_activity` and one on `pg_stat_database`. An active backend that waits
reports its wait event: a lock, a page, the log. A backend that is `idle in transaction` waits for the application,
which keeps the connection.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sojourn.failure import CouldNotRun

ANSWER_SECONDS_MAX = 10.0
_QUERY = """\
SELECT json_build_object(
 'backends', (SELECT json_agg(json_build_object('application', application_name, 'state', state, 'waits_for',
   CASE WHEN state = 'active' THEN wait_event_type END, 'event', CASE WHEN state = 'active' THEN wait_event END))
   FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
 'commits', (SELECT sum(xact_commit) FROM pg_stat_database),
 'rows_read', (SELECT sum(tup_returned) FROM pg_stat_database),
 'blocks_read', (SELECT sum(blks_read) FROM pg_stat_database),
 'connections_max', (SELECT setting::int FROM pg_settings WHERE name = 'max_connections'));
"""


@dataclass
class Activity:
    """The client backends at one moment."""

    backends: int = 0
    active: int = 0
    in_transaction: int = 0
    """Backends idle in a transaction: the application keeps the connection and does something else."""
    waits: dict[str, int] = field(default_factory=dict)
    """Active backends that wait, by kind: Lock, LWLock, IO, …"""
    commits: float = 0.0
    rows_read: float = 0.0
    blocks_read: float = 0.0
    connections_max: int = 0

    @property
    def in_use(self) -> int:
        """Connections occupied by requests."""
        return self.active + self.in_transaction


class Session:
    """A `psql` process that answers repeated queries; a context manager."""

    def __init__(self, connection: str, program: str | None = None) -> None:
        self._connection = connection
        self._program = program or shutil.which("psql") or ""
        if not self._program:
            raise CouldNotRun("there is no psql to ask PostgreSQL with", "on Debian: apt-get install postgresql-client")

    def __enter__(self) -> Session:
        words = [self._program, "-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", self._connection]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            self.activity()
        except CouldNotRun:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def activity(self) -> Activity:
        """The backends' current activity.

        Raises:
            CouldNotRun: the database does not answer.
        """
        line = self._asked()
        if not line.startswith("{"):
            said = self._failure()
            raise CouldNotRun(f"PostgreSQL says nothing of itself: {said}", "give --postgresql as psql takes it")
        return parse(line)

    def _asked(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A database that hangs must not block the assessment.
        guard = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        guard.start()
        try:
            self._process.stdin.write(_QUERY.replace("\n", " ") + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except OSError:
            return ""
        finally:
            guard.cancel()

    def _failure(self) -> str:
        assert self._process.stderr is not None
        self._process.kill()
        said = self._process.stderr.read().strip().splitlines()
        return said[0].removeprefix("psql: error: ") if said else "no answer in time"


def parse(line: str) -> Activity:
    told = json.loads(line)
    backends = told["backends"] or []
    states = [each["state"] or "" for each in backends]
    waits: dict[str, int] = {}
    for each in backends:
        # A slow client keeps no other backend waiting.
        if each["waits_for"] and each["waits_for"] != "Client":
            kind = "IO" if _is_of_the_disk(each["event"] or "") else each["waits_for"]
            waits[kind] = waits.get(kind, 0) + 1
    return Activity(
        backends=len(backends),
        active=states.count("active"),
        in_transaction=sum(state.startswith("idle in transaction") for state in states),
        waits=waits,
        commits=float(told["commits"] or 0),
        rows_read=float(told["rows_read"] or 0),
        blocks_read=float(told["blocks_read"] or 0),
        connections_max=int(told["connections_max"]),
    )


def _is_of_the_disk(event: str) -> bool:
    # A backend that waits for the log to be written waits for the one that syncs it; a backend that waits to extend a
    # table waits for the one that writes its new pages.
    return event in ("WALWrite", "WALWriteLock", "WALSync", "extend")


Asked = Callable[[], Activity]
"""A source of activity, such as a session."""
