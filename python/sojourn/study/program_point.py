"""Measures one point by a program: runs a command to its end and reads figures from its JSON output.

The command may contain the factors and `{root}` (the folder of the study's files or films), `{mix}` or `{media}`
(their list), `{work}` (an empty folder), `{log}` (the log), `{port}` (a free port), `{seed}`, and `{gst_films}`
(GStreamer's streaming server, run by the system's Python). `sojourn` and `sojourn-engine` are those of this
installation.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn import __version__, engine
from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun
from sojourn.study.declarations import SYSTEM, Program
from sojourn.study.document import Study
from sojourn.study.folder import Record
from sojourn.study.logs import log_file
from sojourn.study.points import Point, filled
from sojourn.study.runner import SystemMissing
from sojourn.study.sites import films, films_list, site
from sojourn.systems.gst_rtsp_server import PROGRAM as GST_FILMS
from sojourn.systems.running import free_port
from sojourn.workload.fileset import FILELIST

OUTPUT_BYTES_MAX = 256 << 20
PROGRAM_SECONDS_MAX = 1800.0
"""The timeout of a program."""
_SAID_LINES = 3


@dataclass
class ProgramPoints:
    """Runs the points of a study; `work` holds sites and the programs' files."""

    study: Study
    work: Path

    def __call__(self, point: Point) -> Record:
        """See `runner.Measure`."""
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            command = self._command(point, scratch)
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PROGRAM_SECONDS_MAX
                )
            except subprocess.TimeoutExpired:
                return _record(command, {}, f"it did not end within {PROGRAM_SECONDS_MAX:g} s")
            except OSError as error:
                raise SystemMissing(CouldNotRun(f"cannot run {command[0]}: {error.strerror}", "install it")) from error
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode == EXIT_COULD_NOT_RUN:
            what, _, hint = said.removeprefix("error: ").partition("\nhint: ")
            raise SystemMissing(CouldNotRun(what, hint or None))
        if done.returncode < 0:
            # Ctrl-C on a terminal reaches the program as well as this process.
            raise KeyboardInterrupt
        try:
            printed = _read(done.stdout)
            metrics = {name: _at(printed, each.at) for name, each in self.program.metrics.items()}
            doubts = _listed(printed, self.program.doubtful) if self.program.doubtful else []
        except CouldNotRun as error:
            last = "; ".join(said.splitlines()[-_SAID_LINES:])
            return _record(command, {}, f"{error.what}" + (f"; it said: {last}" if last else ""))
        failed = f"its exit code was {done.returncode}" if done.returncode else None
        # A disturbance of one run need not affect the next.
        doubtful = {"doubtful": "; ".join(doubts), "disturbed": True} if doubts else {}
        return {**_record(command, metrics, failed), **doubtful}

    @property
    def program(self) -> Program:
        """The study's programs and metrics."""
        assert self.study.program is not None
        return self.study.program

    def _command(self, point: Point, scratch: str) -> list[str]:
        places: dict[str, str | int | float] = {"work": scratch, "port": free_port(), "gst_films": str(GST_FILMS)}
        if any("{log}" in word for word in self.study.system(point.settings[SYSTEM]).run):
            places["log"] = str(log_file(self.study.log, self.work))
        places["seed"] = self.study.seed * 1000 + point.repetition
        if self.program.files is not None:
            root = site(self.program.files, point.settings, self.work, self.study.log)
            places |= {"root": str(root), "mix": str(root / FILELIST)}
        if self.program.films is not None:
            root = films(self.program.films, point.settings, self.work)
            places |= {"root": str(root), "media": str(films_list(root))}
        words = [filled(word, {**point.settings, **places}) for word in self.study.system(point.settings[SYSTEM]).run]
        return [_OURS[word]() if word in _OURS else word for word in words]


def _read(printed: bytes) -> object:
    if len(printed) > OUTPUT_BYTES_MAX:
        raise CouldNotRun(f"it printed more than {OUTPUT_BYTES_MAX:,} bytes")
    try:
        whole: object = json.loads(printed)
    except ValueError:
        raise CouldNotRun("it did not print one JSON object") from None
    return whole


def _sojourn() -> str:
    return str(Path(sys.executable).parent / "sojourn")


def _engine() -> str:
    return str(engine.path())


_OURS: dict[str, Callable[[], str]] = {"sojourn": _sojourn, "sojourn-engine": _engine}


def _at(whole: object, path: str) -> float | None:
    """The number at a path; None where it or a part of the path is null, unavailable, or beyond a list's end."""
    found = _part_at(whole, path)
    if found is None or (isinstance(found, Mapping) and "unavailable" in found):
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise CouldNotRun(f"{path} of its output is not a number: {str(found)[:80]}")
    return float(found)


def _listed(whole: object, path: str) -> list[str]:
    """The strings of a list; empty if the list is missing."""
    found = _part_at(whole, path)
    if found is not None and not isinstance(found, list):
        raise CouldNotRun(f"{path} of its output is not a list: {str(found)[:80]}")
    return [str(each) for each in found or []]


def _part_at(whole: object, path: str) -> object:
    found: object = whole
    for step in path.split("."):
        if found is None or (isinstance(found, list) and step.isdecimal() and int(step) >= len(found)):
            return None
        try:
            found = found[int(step)] if isinstance(found, list) else _part(found, step)
        except (KeyError, IndexError, ValueError):
            known = list(found)[:20] if isinstance(found, Mapping) else f"{type(found).__name__}"
            raise CouldNotRun(f"its output has no {path}: at {step!r} there is {known}") from None
    return found


def _part(whole: object, name: str) -> object:
    if not isinstance(whole, Mapping):
        raise KeyError(name)
    return whole[name]


def _record(command: list[str], metrics: dict[str, float | None], failed: str | None = None) -> Record:
    return {
        "failed": failed,
        "generator_limited": None,
        "server_version": __version__,
        "server_command": command,
        "metrics": metrics,
        "counters": {},
    }
