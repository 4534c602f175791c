"""Samples the statistics of MySQL and MariaDB with their client: active threads, and which wait for a lock or the disk.

It uses one connection, and statements that both understand. InnoDB says which transactions wait for a row's lock; the
list of threads says which wait for another lock, and which are committing, that is, waiting for the log on the disk.
It needs the privilege PROCESS; without it, a user sees no threads but its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sojourn.tiers import database
from sojourn.tiers.database import Activity

_END = "sojourn-end"
_QUERY = (
    "SELECT 'thread', id, command, IFNULL(state, ''), id = CONNECTION_ID() FROM information_schema.processlist"
    " WHERE user <> 'system user' AND command NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID');"
    " SELECT 'transaction', trx_mysql_thread_id, trx_state FROM information_schema.innodb_trx;"
    " SHOW GLOBAL STATUS WHERE variable_name = 'Handler_commit';"
    f" SELECT 'limit', @@max_connections; SELECT '{_END}';"
)
COMMITTING = ("commit", "waiting for handler commit", "commit_implicit", "waiting for semi-sync ack from slave")
"""States of threads that wait until the log is on the disk, or with another server."""


class Session(database.Session):
    """A `mariadb` or `mysql` process."""

    name = "MySQL"
    programs = ("mariadb", "mysql")
    package = "mariadb-client"
    option = (
        "--mysql as the client takes it, as '--host=127.0.0.1 --user=watch'; passwords are read from its option file"
    )

    def __init__(self, connection: str, program: str | None = None) -> None:
        super().__init__(program)
        self._connection = connection

    def words(self) -> list[str]:
        """The program's options."""
        # Files of options come first.
        given = sorted(shlex.split(self._connection), key=lambda word: not word.startswith("--defaults"))
        return [*given, "--batch", "--skip-column-names", "--unbuffered", "--connect-timeout=5"]

    def activity(self) -> Activity:
        """The threads' current activity.

        Raises:
            CouldNotRun: the database does not answer.
        """
        return parse(self.ask(_QUERY, lambda line: line == _END))


def parse(lines: Sequence[str]) -> Activity:
    """Of rows separated by tabs: threads, transactions, totals, the limit of connections."""
    found, states = Activity(), dict[str, str]()
    sleeping, waiting, in_transaction = set[str](), set[str](), set[str]()
    for kind, *rest in (line.split("\t") for line in lines):
        match kind, rest:
            case "thread", [_, _, _, "1"]:
                continue
            case "thread", [thread, command, state, _]:
                states[thread] = state.lower()
                if command == "Sleep":
                    sleeping.add(thread)
            case "transaction", [thread, state]:
                (waiting if state == "LOCK WAIT" else in_transaction).add(thread)
            case "Handler_commit", [total]:
                found.commits = float(total)
            case "limit", [most]:
                found.connections_max = int(most)
    active = states.keys() - sleeping
    waiting |= {thread for thread in active if states[thread].startswith("waiting for") and "lock" in states[thread]}
    committing = {thread for thread in active if states[thread] in COMMITTING}
    counts = {"Lock": len(waiting & active), "IO": len(committing - waiting)}
    found.backends, found.active = len(states), len(active)
    found.in_transaction = len(in_transaction & sleeping)
    found.waits = {kind: count for kind, count in counts.items() if count}
    return found
