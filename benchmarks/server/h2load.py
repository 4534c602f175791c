"""Load by TLS on connections that stay, with HTTP/1.1 and HTTP/2, by h2load. The server's CPU time is the scheduler's.

h2load says when its warm-up is over, in which it connects, and when it stops: the server's time is read then.
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
from threading import Timer

from benchmarks.server import idle
from benchmarks.server.conditions import Condition
from sojourn.assessment.measurement import ServerStopped
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems import Certificate, Running

PROGRAM = "h2load"
TIMEOUT_SECONDS = 60.0
"""Time in addition to the load's, for connecting and for the last responses."""
GENERATOR_FRACTION_MAX = 0.95
"""If h2load uses more of its core than this, it is the limit."""
_NANOSECOND = 1e-9
_BEGINS = "Main benchmark duration is started"
_ENDS = "Main benchmark duration is over"


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
    _check_installed("openssl")
    command = ["openssl", "req", "-x509", *curve, *names, *use, "-days", "2", "-keyout", str(key), "-out", str(chain)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10.0, check=False)
    if done.returncode != 0:
        raise CouldNotRun(f"openssl failed: {done.stderr.strip()[-200:]}")
    # A worker that runs as another user must read it.
    key.chmod(0o644)
    return Certificate(chain, key)


def load(
    server: Running, condition: Condition, core: int | None, duration_seconds: float, warm_up_seconds: float
) -> Load:
    """Loads the server from `core`, in a closed loop of all streams of all clients.

    Raises:
        CouldNotRun: h2load is not installed, or failed.
        ServerStopped: the server has ended.
    """
    version = ["--h1"] if condition.protocol == "https" else [f"--max-concurrent-streams={condition.streams}"]
    moments = [f"--duration={_milliseconds(duration_seconds)}", f"--warm-up-time={_milliseconds(warm_up_seconds)}"]
    how = ["--threads=1", f"--clients={condition.clients}", *moments, *version]
    command = cores.pinned_command(core, [PROGRAM, *how, server.url + condition.path])
    seconds = duration_seconds + warm_up_seconds
    generator_before = _children_seconds()
    said, read = _watched(command, server, seconds + TIMEOUT_SECONDS)
    fraction = (_children_seconds() - generator_before) / seconds
    if server.has_died:
        raise ServerStopped("the server ended by itself while it was measured", None)
    requests, errors = counts(said)
    if read.keys() != {_BEGINS, _ENDS}:
        raise CouldNotRun(f"{PROGRAM} printed no begin and end: {said.strip()[-200:]}")
    limited = f"h2load used {fraction:.0%} of its core" if fraction > GENERATOR_FRACTION_MAX else None
    return Load(requests, errors, duration_seconds, read[_ENDS] - read[_BEGINS], limited)


def _watched(command: list[str], server: Running, timeout_seconds: float) -> tuple[str, dict[str, float]]:
    """Runs h2load; returns what it printed, and the server's CPU time when its load began and ended."""
    _check_installed(PROGRAM)
    said = ""
    read: dict[str, float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        end = Timer(timeout_seconds, process.kill)
        end.start()
        try:
            for line in process.stdout:
                said += line
                read |= {sign: cpu_seconds(server.pids) for sign in (_BEGINS, _ENDS) if line.startswith(sign)}
        finally:
            end.cancel()
    if process.returncode != 0:
        raise CouldNotRun(f"{PROGRAM} failed: {said.strip()[-200:]}")
    return said, read


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}ms"


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
        with contextlib.suppress(FileNotFoundError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds * _NANOSECOND


def _children_seconds() -> float:
    """Returns the CPU time of this process's children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check_installed(program: str) -> None:
    if shutil.which(program) is None:
        package = "nghttp2-client" if program == PROGRAM else program
        raise CouldNotRun(f"{program} is not installed", f"on Debian or Ubuntu: apt-get install {package}")
