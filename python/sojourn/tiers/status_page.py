"""Reads a page on which an application says something of itself; like the load, without the environment's proxies."""

from __future__ import annotations

import http.client
import urllib.request

TIMEOUT_SECONDS = 5.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def read(url: str, bytes_max: int) -> bytes:
    """Reads the page, or as much of it as this.

    Raises:
        OSError: it does not answer, or its answer ends too early.
        ValueError: the URL is none.
    """
    try:
        with _OPENER.open(url, timeout=TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read(bytes_max)
    except http.client.HTTPException as error:
        raise OSError(f"its answer is broken: {error!r}") from error
    return content
