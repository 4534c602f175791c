"""Load by TLS on connections that stay, with HTTP/1.1 and HTTP/2, by h2load. The server's CPU time is the scheduler's.

The time is that of the whole run: the handshakes of a few clients are in it, for all servers alike.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server import idle
from benchmarks.server.conditions import Condition
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems import Certificate, Running

PROGRAM = "h2load"
TIMEOUT_SECONDS = 60.0
"""Time in addition to the load's, for connecting and for the last responses."""
GENERATOR_FRACTION_MAX = 0.95
"""If h2load uses more of its core than this, it is the limit."""
_NANOSECOND = 1e-9


@dataclass(frozen=True)
class Load:
    """The requests that h2load made, and their CPU time."""

    requests: int
    """Responses of 2xx or 3xx."""
    errors: int
    seconds: float
    cpu_seconds: float
    """The server's, over all its processes."""
    limited_because: str | None = None
    """Why the generator was the limit, if it was."""


def certificate(folder: Path) -> Certificate:
    """Makes a certificate of the loopback for an elliptic curve, as most sites have.

    Raises:
        CouldNotRun: openssl is not installed, or refuses.
    """
    chain, key = folder / "certificate.pem", folder / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    # Clients that verify refuse the certificate of an authority as a server's.
    use = ["-addext", "basicConstraints=critical,CA:FALSE"]
    _run(["openssl", "req", "-x509", *curve, *names, *use, "-days", "2", "-keyout", str(key), "-out", str(chain)], 10.0)
    # A worker that runs as another user must read it.
    key.chmod(0o644)
    return Certificate(chain, key)


def load(server: Running, condition: Condition, core: int | None, duration_seconds: float) -> Load:
    """Loads the server from `core`, in a closed loop of all streams of all clients.

    Raises:
        CouldNotRun: h2load is not installed, or failed.
    """
    seconds = max(1, round(duration_seconds))
    version = ["--h1"] if condition.protocol == "https" else [f"--max-concurrent-streams={condition.streams}"]
    how = ["--threads=1", f"--clients={condition.clients}", f"--duration={seconds}", *version]
    command = cores.pinned_command(core, [PROGRAM, *how, server.url + condition.path])
    before, generator_before = cpu_seconds(server.pids), _children_seconds()
    said = _run(command, seconds + TIMEOUT_SECONDS)
    spent, generator = cpu_seconds(server.pids) - before, _children_seconds() - generator_before
    requests, errors = counts(said)
    fraction = generator / seconds
    limited = f"h2load used {fraction:.0%} of its core" if fraction > GENERATOR_FRACTION_MAX else None
    return Load(requests, errors, seconds, spent, limited)


def counts(said: str) -> tuple[int, int]:
    """Returns the numbers of requests that succeeded, and that did not, from what h2load printed."""
    found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", said)
    if found is None:
        raise CouldNotRun(f"{PROGRAM} printed no numbers of requests: {said.strip()[-200:]}")
    succeeded, failed, errored, timed_out = map(int, found.groups())
    # Failed ones are errored, timed out, or were answered with an error.
    return succeeded, max(failed, errored + timed_out)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Returns the CPU time of the processes and their descendants, with that of all their threads that live."""
    nanoseconds = 0
    for pid in idle.tree(pids):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds * _NANOSECOND


def _children_seconds() -> float:
    """Returns the CPU time of this process's children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str], timeout_seconds: float) -> str:
    program = next(word for word in command if word in (PROGRAM, "openssl"))
    if shutil.which(program) is None:
        package = "nghttp2-client" if program == PROGRAM else program
        raise CouldNotRun(f"{program} is not installed", f"on Debian or Ubuntu: apt-get install {package}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    if done.returncode != 0:
        raise CouldNotRun(f"{program} failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return done.stdout
