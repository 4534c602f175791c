"""Reads the status page of php-fpm: how many of its workers are active, and how many requests wait for one."""

from __future__ import annotations

import json
import urllib.request
from urllib.parse import urlsplit, urlunsplit

from sojourn.failure import CouldNotRun

TIMEOUT_SECONDS = 5.0
BYTES_MAX = 1 << 20
LEVELS = ("active processes", "total processes", "listen queue")
"""The keys of the page that are levels now, and not counters or maxima since its start."""
PREFIX = "php_fpm_"


def read(url: str) -> dict[str, float]:
    """Reads the page, as `php_fpm_active_processes`, `php_fpm_total_processes` and `php_fpm_listen_queue`.

    Raises:
        CouldNotRun: it does not answer, or something else.
    """
    parts = urlsplit(url)
    try:
        with urllib.request.urlopen(urlunsplit(parts._replace(query="json")), timeout=TIMEOUT_SECONDS) as answer:
            told = json.loads(answer.read(BYTES_MAX))
        return {PREFIX + name.replace(" ", "_"): float(told[name]) for name in LEVELS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CouldNotRun(
            f"{url} is no status page of php-fpm: {error!r}",
            "set pm.status_path, and pm.status_listen so that it answers while all workers are busy; "
            "give --php-fpm the URL under which the web server passes it on",
        ) from error
