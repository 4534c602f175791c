"""The queue's worker: takes paid orders, makes their invoices, and marks them as sent."""

from __future__ import annotations

import os
import threading
import time

import psycopg

from .burn import burn
from .knobs import Knobs

IDLE_SECONDS = 0.1


def main() -> None:
    """Works until it is stopped."""
    knobs = Knobs()
    threads = [threading.Thread(target=_work, args=[knobs], daemon=True) for _ in range(knobs.count("queue_workers"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work(knobs: Knobs) -> None:
    with psycopg.connect(os.environ["SHOP_DATABASE"]) as connection:
        while True:
            # Skips jobs that another thread has locked instead of waiting for them.
            job = connection.execute(
                "DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) "
                "RETURNING order_number"
            ).fetchone()
            if job is not None:
                burn(knobs.seconds("job_ms"))
                connection.execute("UPDATE orders SET state = 'sent' WHERE number = %s", job)
            connection.commit()
            if job is None:
                time.sleep(IDLE_SECONDS)


if __name__ == "__main__":
    main()
