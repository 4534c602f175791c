"""One cell of the tables: an application or a script, a server in front of it, both loaded, checked and stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.dynamic.conditions import Condition
from benchmarks.server import network
from benchmarks.server.cell import Cell, Setting, WrongResponse, verify, with_figures, with_trouble
from benchmarks.server.competitors import Competitor, start_null_responder
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped
from sojourn.failure import CouldNotRun
from sojourn.systems import Launch

_INTERPRETER = "/usr/bin/tail -n+2"
"""It writes what follows a script's first line: as little as a program of the distribution does."""


def measure(condition: Condition, competitor: Competitor, repetition: int, setting: Setting) -> Cell:
    """Measures one cell. A server that fails is a cell with trouble; only Ctrl-C goes on to the caller."""
    began = time.monotonic()
    if setting.congestion_control is not None:
        network.enter_own(setting.congestion_control)
    found = Cell(condition.name, competitor.name, repetition)
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as scratch:
        work = Path(scratch)
        # Apache's worker is another user and has to enter it.
        work.chmod(0o755)
        try:
            with _behind(condition, setting, work) as launch, competitor.start(launch, condition) as server:
                verify(server.url + condition.path, setting.site / condition.size)
                found = replace(found, version=server.version)
                # The application shares the generator's core, which therefore may not poll.
                options = setting.options_of(condition) | {"options": ["--wait", "sleep"]}
                result = Bench(server, setting.cores, setting.seed).closed_loop(**options)
                found = with_figures(found, result, condition)
        except (CouldNotRun, ServerStopped, WrongResponse) as error:
            found = with_trouble(found, error)
        except Interrupted as error:
            raise KeyboardInterrupt from error
    return replace(found, seconds=time.monotonic() - began)


@contextmanager
def _behind(condition: Condition, setting: Setting, work: Path) -> Iterator[Launch]:
    """What answers: the null responder as an application on the generator's core, or a directory with a script."""
    if condition.of == "cgi":
        scripts = work / "scripts"
        scripts.mkdir()
        _write_script(scripts / condition.size, (setting.site / condition.size).read_bytes())
        yield Launch(scripts, work, setting.cores.server, "")
        return
    origin = work / "application"
    origin.mkdir()
    launch = Launch(setting.site, origin, setting.cores.generator, "")
    with start_null_responder(launch, condition, "--variant", "fastcgi") as application:
        address = application.url.replace("http:", "fcgi:", 1)
        yield Launch(setting.site, work, setting.cores.server, "", upstream=address)


def _write_script(path: Path, body: bytes) -> None:
    head = f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    path.write_bytes(f"#!{_INTERPRETER}\n{head}".encode() + body)
    path.chmod(0o755)
