"""Runs each of the three programs once on a core and reads its bytes per second, by operation and size of an array.

A copied byte counts once here, as in ours and mbw; STREAM counts it twice, as read and as written.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn import engine
from sojourn.engine.results import MemoryRecord
from sojourn.failure import CouldNotRun
from sojourn.machine.cores import pinned_command

MEBIBYTE = 2**20
DOUBLE_BYTES = 8
RUNS = 10
"""Copies in one run of a program; STREAM has the same number."""
ONE_COPY = "1us"
"""The engine ends a measurement after the first copy that ends later than this."""
LIMIT_SECONDS = 600.0
STREAM_BYTES_MAX = 64 * MEBIBYTE
_HPCC_SETTINGS = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
_MBW = re.compile(r"^\d+\tMethod: \w+\t.*Copy: (?P<rate>[0-9.]+) MiB/s$", re.MULTILINE)
_STREAM = re.compile(r"^SingleSTREAM_(?P<method>\w+)=(?P<rate>[0-9.e+]+)$", re.MULTILINE)

Found = dict[str, list[float]]
"""By operation, the bytes per second of each run, or of the best one only."""


@dataclass(frozen=True)
class Tool:
    """A program that measures memory."""

    name: str
    run: Callable[[int, int | None], Found]
    """Runs it with arrays of this many bytes, on a core.

    Raises:
        CouldNotRun: it is not installed, or failed.
    """


def sojourn(array_bytes: int, core: int | None) -> Found:
    """Runs `sojourn-engine memory`: a copy's working set is both arrays.

    One copy at a time and a process per kernel, as with the others: a program that copies for longer may get more of a
    last-level cache that it shares.
    """
    found: Found = {}
    for kernel in ("copy-block", "copy-strided-load"):
        options = ["memory", "--kernels", kernel, "--working-sets", str(2 * array_bytes)]
        options += ["--repetitions", str(RUNS), "--measure", ONE_COPY]
        options += ["--core", str(core)] if core is not None else []
        (point,) = engine.run(options, MemoryRecord).points
        found[kernel] = [point.bytes_per_second.median, point.bytes_per_second.max]
    return found


def mbw(array_bytes: int, core: int | None) -> Found:
    """Runs mbw: the library's copy, in one block of the array's size, and mbw's loop over words.

    For the library's copy we take mbw's third method, because Debian's release, which does not print its version, has
    swapped the names of the other two. If mbw prints its version, the names are right.
    """
    tells_version = re.search(r"\bv\d", _usage()) is not None
    tests = {"MCBLOCK": ["-t2", "-b", str(array_bytes)], "words": ["-t1" if tells_version else "-t0"]}
    size = str(array_bytes // MEBIBYTE)
    found: Found = {}
    for name, test in tests.items():
        said = _said(["mbw", "-q", "-a", *test, "-n", str(RUNS), size], core)
        found[name] = [float(run["rate"]) * MEBIBYTE for run in _MBW.finditer(said)]
    return found


def _usage() -> str:
    if shutil.which("mbw") is None:
        raise CouldNotRun("mbw is not installed", "benchmarks/memory/peers")
    return subprocess.run(["mbw", "-h"], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False).stdout


def stream(array_bytes: int, core: int | None) -> Found:
    """Runs STREAM within hpcc, whose arrays are a third of a matrix; it reports the best of its runs."""
    if not _HPCC_SETTINGS.is_file():
        raise CouldNotRun("hpcc is not installed", "benchmarks/memory/peers")
    if array_bytes > STREAM_BYTES_MAX:
        limit = STREAM_BYTES_MAX // MEBIBYTE
        raise CouldNotRun(f"with arrays above {limit} MiB hpcc solves linear equations for minutes first")
    order = math.ceil(math.sqrt(3 * array_bytes / DOUBLE_BYTES))
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as work:
        (Path(work) / "hpccinf.txt").write_text(hpcc_settings(_HPCC_SETTINGS.read_text(), order))
        _said(["hpcc"], core, cwd=Path(work))
        said = (Path(work) / "hpccoutf.txt").read_text()
    rates = {each["method"]: float(each["rate"]) * 1e9 for each in _STREAM.finditer(said)}
    if "Copy" not in rates:
        raise CouldNotRun("hpcc told no STREAM result")
    return {"Copy": [rates["Copy"] / 2], "Triad": [rates["Triad"] / 3]}


def hpcc_settings(example: str, order: int) -> str:
    """Returns hpcc's example settings for one process and a matrix of this order."""
    lines = example.splitlines()
    for number, line in enumerate(lines):
        words = line.split()
        if words[1:] in (["Ps"], ["Qs"]):
            lines[number] = f"1 {words[1]}"
        elif words[1:] == ["Ns"]:
            lines[number] = f"{order} Ns"
    return "\n".join(lines) + "\n"


def _said(command: Sequence[str], core: int | None, cwd: Path | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise CouldNotRun(f"{command[0]} is not installed", "benchmarks/memory/peers")
    # MPI refuses root for reasons that do not matter to a single process.
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        pinned_command(core, list(command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **settings},
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise CouldNotRun(f"{command[0]} ended with exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


TOOLS: Sequence[Tool] = (Tool("sojourn", sojourn), Tool("mbw", mbw), Tool("STREAM", stream))
