"""The subjects: a log and a server each, chosen so that the cost of a request differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sojourn.failure import CouldNotRun

TRACES = "SOJOURN_TRACES"
"""The environment variable with a folder of real logs."""
LARGE_SIZES_BYTES = tuple(100_000 * tenths for tenths in (10, 15, 20, 30, 40, 50, 60, 80))
LARGE_SESSIONS = 2000
LARGE_LOG_SECONDS = 3600


@dataclass(frozen=True)
class Subject:
    """A log, and further options of `sojourn assess`."""

    name: str
    log: Callable[[Path], Path | None]
    """Makes or finds the log, given the benchmark's folder; None if it is not on this machine."""
    options: tuple[str, ...] = ()


def _example(folder: Path) -> Path:
    path = folder / "example.log"
    if not path.exists():
        subprocess.run([str(Path(sys.executable).with_name("sojourn")), "example-log", str(path)], check=True)
    return path


def _real(prefix: str) -> Callable[[Path], Path | None]:
    def find(folder: Path) -> Path | None:
        return next(iter(sorted(Path(os.environ.get(TRACES, folder / "traces")).glob(f"{prefix}*"))), None)

    return find


def _large_documents(folder: Path) -> Path:
    """Makes a log of documents so large that each takes a quarter of a core milliseconds.

    A whole core would send them as fast as the generator's core can receive them.
    """
    path = folder / "large-documents.log"
    random = Random(1)
    lines = []
    for session in range(LARGE_SESSIONS):
        second = random.randrange(LARGE_LOG_SECONDS - 60)
        for _ in range(random.randint(1, 4)):
            document = random.randrange(len(LARGE_SIZES_BYTES))
            at = f"01/Oct/2026:12:{second // 60:02}:{second % 60:02} +0000"
            request = f"GET /film-{document}.bin HTTP/1.1"
            address = f"10.0.{session // 250}.{session % 250}"
            lines.append((second, f'{address} - - [{at}] "{request}" 200 {LARGE_SIZES_BYTES[document]}\n'))
            second += random.randint(1, 10)
    path.write_text("".join(line for _, line in sorted(lines)))
    return path


EXAMPLE = Subject("example log", _example)
SUBJECTS = (
    EXAMPLE,
    Subject("real log calgary", _real("calgary"), ("--static-only",)),
    Subject("real log nasa", _real("nasa"), ("--static-only",)),
    Subject("nginx", _example, ("--server", "nginx")),
    Subject("apache2", _example, ("--server", "apache2")),
    Subject("tenth of a core", _example, ("--cpu-limit", "0.1")),
    Subject("milliseconds", _large_documents, ("--target-p95", "2s", "--cpu-limit", "0.25")),
)


def log_of(subject: Subject, folder: Path) -> Path:
    """Returns the path of its log.

    Raises:
        CouldNotRun: it is not on this machine.
    """
    found = subject.log(folder)
    if found is None:
        raise CouldNotRun(f"no log for {subject.name}", f"set {TRACES} to the folder that has it")
    return found
