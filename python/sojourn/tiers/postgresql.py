"""Samples PostgreSQL's statistics with `psql`: active backends, waiting backends, and what they wait for.

It uses one connection with a query on `pg_stat_activity` and one on `pg_stat_database`. An active backend that waits
reports its wait event: a lock, a page, the log. A backend that is `idle in transaction` waits for the application,
which keeps the connection.
"""

from __future__ import annotations

import json

from sojourn.tiers import database
from sojourn.tiers.database import Activity

_QUERY = """\
SELECT json_build_object(
 'backends', (SELECT json_agg(json_build_object('application', application_name, 'state', state, 'waits_for',
   CASE WHEN state = 'active' THEN wait_event_type END, 'event', CASE WHEN state = 'active' THEN wait_event END))
   FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
 'commits', (SELECT sum(xact_commit) FROM pg_stat_database),
 'connections_max', (SELECT setting::int FROM pg_settings WHERE name = 'max_connections'));
"""


class Session(database.Session):
    """A `psql` process."""

    name = "PostgreSQL"
    programs = ("psql",)
    package = "postgresql-client"
    option = "--postgresql as psql takes it"

    def __init__(self, connection: str, program: str | None = None) -> None:
        super().__init__(program)
        self._connection = connection

    def words(self) -> list[str]:
        """The program's options."""
        return ["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", self._connection]

    def activity(self) -> Activity:
        """The backends' current activity.

        Raises:
            CouldNotRun: the database does not answer.
        """
        return parse(self.ask(_QUERY.replace("\n", " "), lambda line: line.startswith("{"))[-1])


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
        connections_max=int(told["connections_max"]),
    )


def _is_of_the_disk(event: str) -> bool:
    # A backend that waits for the log to be written waits for the one that syncs it; a backend that waits to extend a
    # table waits for the one that writes its new pages.
    return event in ("WALWrite", "WALWriteLock", "WALSync", "extend")
