"""A server of known capacity: one request after another, each takes the same time, whatever the load."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def paced_server(service_seconds: float) -> Iterator[str]:
    """Its URL; departures are scheduled on absolute times, so that lateness does not add up."""
    loop = asyncio.new_event_loop()
    free_at = 0.0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal free_at
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                free_at = max(loop.time(), free_at) + service_seconds
                await asyncio.sleep(free_at - loop.time())
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
