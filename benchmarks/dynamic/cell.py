"""One cell of the tables: starts an application or a script and a server in front, checks, loads and stops them."""

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
from sojourn.systems import Launch, Running

_INTERPRETER = "/usr/bin/tail -n+2"
"""Prints what follows a script's first line: about the least that a program of the distribution does."""


def measure(condition: Condition, competitor: Competitor, repetition: int, setting: Setting) -> Cell:
    """Measures one cell. If a server fails, the cell has `trouble`; only Ctrl-C reaches the caller."""
    began = time.monotonic()
    if setting.congestion_control is not None:
        network.enter_own(setting.congestion_control)
    try:
        with serving(condition, competitor, setting) as server:
            found = load(condition, competitor, repetition, setting, server)
    except CouldNotRun as error:
        found = with_trouble(Cell(condition.name, competitor.name, repetition), error)
    return replace(found, seconds=time.monotonic() - began)


@contextmanager
def serving(condition: Condition, competitor: Competitor, setting: Setting) -> Iterator[Running]:
    """Starts a server in front of its own application or script, and checks its response.

    Raises:
        CouldNotRun: it does not start, or answers wrongly.
    """
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as scratch:
        work = Path(scratch)
        # Apache's worker runs as another user and must enter the folder.
        work.chmod(0o755)
        with _behind(condition, setting, work) as launch, competitor.start(launch, condition) as server:
            try:
                verify(server.url + condition.path, setting.site / condition.size)
            except WrongResponse as error:
                raise CouldNotRun(str(error)) from error
            yield server


def load(condition: Condition, competitor: Competitor, repetition: int, setting: Setting, server: Running) -> Cell:
    """Measures the cell of a running server; only Ctrl-C reaches the caller."""
    began = time.monotonic()
    found = Cell(condition.name, competitor.name, repetition, version=server.version)
    # The generator must not poll, because the application shares its core.
    options = setting.options_of(condition) | {"options": ["--wait", "sleep"]}
    try:
        result = Bench(server, setting.cores, setting.seed).closed_loop(**options)
        found = with_figures(found, result, condition)
    except (CouldNotRun, ServerStopped) as error:
        found = with_trouble(found, error)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    return replace(found, seconds=time.monotonic() - began)


@contextmanager
def _behind(condition: Condition, setting: Setting, work: Path) -> Iterator[Launch]:
    """Starts the null responder as an application on the generator's core, or makes a directory with a script."""
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
