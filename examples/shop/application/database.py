"""The database as a request sees it: one connection of the worker's pool, held until the request is answered.

The time of queries and of the wait for a connection goes into `Server-Timing` and the metrics.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from flask import Flask, g
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from .knobs import Knobs

CONNECTION_TIMEOUT_SECONDS = 30.0
ITERATIONS_PER_MS = 6000
"""About the number of rows of generate_series that PostgreSQL counts in a millisecond."""


class Database:
    """The connection pool of this worker."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        size = knobs.count("pool_size")
        self._pool = ConnectionPool(
            os.environ["SHOP_DATABASE"],
            min_size=size,
            max_size=size,
            timeout=CONNECTION_TIMEOUT_SECONDS,
            kwargs={"row_factory": dict_row},
            open=False,
        )
        self._opening = threading.Lock()
        self._is_open = False

    def attach(self, application: Flask) -> None:
        """Makes requests return their connections when they end."""
        application.teardown_appcontext(self._give_back)

    def all(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Returns the rows of a query."""
        connection = self._connection()
        begin = time.perf_counter()
        try:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []
        finally:
            g.database_seconds = g.get("database_seconds", 0.0) + time.perf_counter() - begin

    def one(self, query: str, values: Sequence[Any] = ()) -> dict[str, Any] | None:
        """Returns the first row of a query, if there is one."""
        rows = self.all(query, values)
        return rows[0] if rows else None

    def commit(self) -> None:
        """Commits the transaction, which releases its locks."""
        self._connection().commit()

    def burden(self) -> None:
        """Runs the extra queries that the knobs add to each page."""
        if slow := self._knobs["slow_query_ms"]:
            self.all("SELECT count(*) FROM generate_series(1, %s)", [int(slow * ITERATIONS_PER_MS)])
        if kilobytes := self._knobs.count("audit_kb"):
            self.all("INSERT INTO audit (entry) VALUES (repeat(md5(random()::text), %s))", [kilobytes * 32])
            self.commit()

    def usage(self) -> dict[str, int]:
        """Returns the numbers of connections, of those in use, and of requests that wait for one."""
        known = self._pool.get_stats()
        size, idle = known.get("pool_size", 0), known.get("pool_available", 0)
        return {"size": size, "in_use": size - idle, "waiting": known.get("requests_waiting", 0)}

    def _connection(self) -> psycopg.Connection[dict[str, Any]]:
        # The pool has its own threads, so it must start in the worker, after gunicorn has forked.
        with self._opening:
            if not self._is_open:
                self._pool.open()
                self._is_open = True
        if "connection" not in g:
            begin = time.perf_counter()
            g.connection = self._pool.getconn()
            g.pool_seconds = time.perf_counter() - begin
        return g.connection

    def _give_back(self, _error: BaseException | None) -> None:
        connection = g.pop("connection", None)
        if connection is not None:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.rollback()
            self._pool.putconn(connection)
