"""A cell of the tables: an application or a script, and a server in front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.dynamic.conditions import Condition
from benchmarks.server.cell import Served, Setting, verify, work_folder
from benchmarks.server.competitors import Competitor, start_null_responder
from sojourn.systems import Launch

_INTERPRETER = "/usr/bin/tail -n+2"
"""Prints what follows a script's first line: about the least that a program of the distribution does."""


@contextmanager
def serving(condition: Condition, competitor: Competitor, setting: Setting) -> Iterator[Served]:
    """Starts a server in front of its own application or script, and checks its response.

    Raises:
        CouldNotRun: it does not start, or answers wrongly.
    """
    with (
        work_folder() as work,
        _behind(condition, setting, work) as launch,
        competitor.start(launch, condition) as server,
    ):
        verify(server.url + condition.path, setting.site / condition.size)
        # The generator must not poll, because the application shares its core.
        yield Served(server, ["--wait", "sleep"])


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
