"""Reads the status page of php-fpm: how many of its workers are active, and how many requests wait for one."""

from __future__ import annotations

import json
from urllib.parse import urlsplit, urlunsplit

from sojourn.failure import CouldNotRun
from sojourn.tiers import status_page

BYTES_MAX = 1 << 20
ACTIVE, TOTAL, WAITING = "php_fpm_active_processes", "php_fpm_total_processes", "php_fpm_listen_queue"
LEVELS = {ACTIVE: "active processes", TOTAL: "total processes", WAITING: "listen queue"}
"""The page's keys of what is a level now, and not a counter or a maximum since its start, by our names."""


def read(url: str) -> dict[str, float]:
    """Reads the page's `LEVELS`.

    Raises:
        CouldNotRun: it does not answer, or something else.
    """
    parts = urlsplit(url)
    try:
        told = json.loads(status_page.read(urlunsplit(parts._replace(query="json")), BYTES_MAX))
        return {name: float(told[key]) for name, key in LEVELS.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CouldNotRun(
            f"{url} is no status page of php-fpm: {error!r}",
            "set pm.status_path, and pm.status_listen so that it answers while all workers are busy; "
            "give --php-fpm the URL under which the web server passes it on",
        ) from error
