"""A process of known capacity: it serves one request after another, and each takes the same time, whatever the load."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def paced_server(service_seconds: float) -> Iterator[str]:
    """Its URL."""
    command = [sys.executable, __file__, str(service_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _run(service_seconds: float) -> None:
    """Serves until it is terminated; departures are at absolute times, so that lateness does not add up."""
    now = asyncio.get_running_loop().time
    free_at = 0.0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal free_at
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                free_at = max(now(), free_at) + service_seconds
                await asyncio.sleep(free_at - now())
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_run(float(sys.argv[1])))
