"""The external service on which pages wait: recommendations, payments.

Run as a program it is that service: it answers a line after a delay, however many clients there are, like a machine far
from saturation. The application keeps no connection to it.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
import time

from flask import g

from .knobs import Knobs

TIMEOUT_SECONDS = 30.0


class External:
    """The service as the application sees it."""

    def __init__(self, knobs: Knobs) -> None:
        self._is_used = knobs["external_ms"] > 0
        self._port = int(os.environ["SHOP_EXTERNAL_PORT"])

    def ask(self) -> None:
        """Sends a request, and waits for the answer."""
        if not self._is_used:
            return
        begin = time.perf_counter()
        with socket.create_connection(("127.0.0.1", self._port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"what next?\n")
            connection.recv(64)
        g.external_seconds = g.get("external_seconds", 0.0) + time.perf_counter() - begin


async def _serve(listener: socket.socket, mean_seconds: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            # Four exponential stages in series: the standard deviation is half of the mean.
            await asyncio.sleep(random.gammavariate(4, mean_seconds / 4))
            writer.write(b"this\n")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, sock=listener, backlog=1024) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1])), Knobs().seconds("external_ms")))
