"""Starts a foreign application behind nginx in a folder, makes an access log, and ends what it started."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

READY_SECONDS_MAX = 30.0
END_SECONDS_MAX = 10.0
USERS = 6
THINK_SECONDS = 0.15
NGINX = """\
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log; worker_processes 1; {user}
events {{ worker_connections 4096; }}
http {{
    include {mime_types};
    access_log {folder}/access.log combined;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        {locations}
    }}
}}
"""


@dataclass(frozen=True)
class Foreign:
    """A running application."""

    url: str
    log: Path
    tiers: Mapping[str, int]
    """The port of each tier."""


class Parts:
    """The processes of one application."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[str | Path], folder: Path | None = None) -> None:
        """Starts a process; its output goes to the folder."""
        with (self.folder / f"{Path(command[0]).name}.log").open("ab") as log:
            words = list(map(str, command))
            self._started.append(
                subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
            )

    def nginx(self, locations: str) -> int:
        """Starts nginx with these locations; returns its port."""
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise CouldNotRun("there is no nginx", "make peers installs it")
        mime_types = next((path for path in ("/etc/nginx/mime.types",) if Path(path).exists()), "/dev/null")
        port, user = free_port(), "" if os.getuid() else "user root;"
        configuration = self.folder / "nginx.conf"
        configuration.write_text(
            NGINX.format(folder=self.folder, user=user, mime_types=mime_types, port=port, locations=locations)
        )
        self.start([program, "-e", self.folder / "nginx-error.log", "-c", configuration])
        return port

    def end(self) -> None:
        """Ends all processes, the last one first."""
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def started(folder: Path, start: Callable[[Parts], Foreign], paths: Sequence[str], seconds: float) -> Iterator[Foreign]:
    """Starts an application and makes its log: users request these paths for a while, early ones more often."""
    parts = Parts(folder)
    try:
        running = start(parts)
        _wait_for(running.url + paths[0], folder)
        _use(running.url, paths, seconds)
        log = folder / "users.log"
        shutil.copy(folder / "access.log", log)
        yield Foreign(running.url, log, running.tiers)
    finally:
        parts.end()


def free_port() -> int:
    """Returns a port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, folder: Path) -> None:
    until = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
                return
        except OSError as error:
            if time.monotonic() > until:
                raise CouldNotRun(f"{url} does not answer: {error}", f"see the logs in {folder}") from error
        time.sleep(0.2)


def _use(url: str, paths: Sequence[str], seconds: float) -> None:
    until = time.monotonic() + seconds
    weights = [1 / (place + 1) ** 0.5 for place in range(len(paths))]

    def ask(seed: int) -> None:
        drawn = random.Random(seed)
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(url + drawn.choices(paths, weights)[0], timeout=10) as answer:
                    answer.read()
            except urllib.error.HTTPError:
                continue
            time.sleep(drawn.expovariate(1 / THINK_SECONDS))

    threads = [threading.Thread(target=ask, args=(seed,), daemon=True) for seed in range(USERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
