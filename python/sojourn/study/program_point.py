"""Measures one point by a program: runs a command to its end and reads figures from its JSON output.

The command may contain the factors and `{root}` (the folder of the study's files or films), `{mix}` or `{media}`
(their list), `{work}` (an empty folder), `{log}` (the log), `{port}` (a free port), `{seed}`, and `{gst_films}`
(GStreamer's streaming server, run by the system's Python). `sojourn` and `sojourn-engine` are those of this
installation.

One run may have the figures of several points: of all values of a factor that neither the command nor its files or
films name, and the paths of the metrics do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter

from sojourn import __version__, engine
from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun
from sojourn.study.declarations import SYSTEM, Program
from sojourn.study.document import Study
from sojourn.study.folder import Record
from sojourn.study.logs import log_file
from sojourn.study.points import Point, filled
from sojourn.study.runner import SystemMissing
from sojourn.study.sites import films, films_list, site, texts_of
from sojourn.systems.gst_rtsp_server import PROGRAM as GST_FILMS
from sojourn.systems.running import free_port
from sojourn.workload.fileset import FILELIST

OUTPUT_BYTES_MAX = 256 << 20
PROGRAM_SECONDS_MAX = 3600.0
"""The timeout of a program."""
_SAID_LINES = 3


@dataclass
class _Run:
    """A program that ran to its end."""

    command: list[str]
    printed: bytes = b""
    said: str = ""
    """What it wrote to standard error."""
    exit_code: int = 0
    timed_out: bool = False
    used_by: set[str] = field(default_factory=set)
    """The names of the points with its figures."""


@dataclass
class ProgramPoints:
    """Runs the points of a study; `work` holds sites and the programs' files."""

    study: Study
    work: Path
    _runs: dict[tuple[object, ...], _Run] = field(default_factory=dict)
    """Runs whose figures several points share, by repetition and the factors that their commands or files name."""

    def __call__(self, point: Point) -> Record:
        """See `runner.Measure`."""
        run = self._run_of(point)
        try:
            if run.timed_out:
                raise CouldNotRun(f"it did not end within {PROGRAM_SECONDS_MAX:g} s")
            printed = _read(run.printed)
            metrics = {
                name: _at(printed, filled(each.at, point.settings)) for name, each in self.program.metrics.items()
            }
            where = self.program.doubtful
            doubts = _listed(printed, filled(where, point.settings)) if where else []
        except CouldNotRun as error:
            last = "; ".join(run.said.splitlines()[-_SAID_LINES:])
            return _record(run.command, {}, f"{error.what}" + (f"; it said: {last}" if last else ""))
        failed = f"its exit code was {run.exit_code}" if run.exit_code else None
        # A disturbance of one run need not affect the next.
        doubtful = {"doubtful": "; ".join(doubts), "disturbed": True} if doubts else {}
        return {**_record(run.command, metrics, failed), **doubtful}

    def _run_of(self, point: Point) -> _Run:
        """The run with the point's figures: an earlier one of the same command that this point has not used."""
        # The command may read its files, whatever it names.
        texts = [*self._words(point), *texts_of(self.program.files), *texts_of(self.program.films)]
        names = {name for text in texts for _, name, _, _ in Formatter().parse(text)}
        key = (point.repetition, *((name, value) for name, value in point.settings.items() if name in {SYSTEM, *names}))
        is_shared = any(len(values) > 1 for name, values in self.study.factors.items() if name not in names)
        run = self._runs.get(key)
        if run is None or point.name in run.used_by:
            run = self._run(point)
            if is_shared:
                self._runs[key] = run
        run.used_by.add(point.name)
        return run

    def _run(self, point: Point) -> _Run:
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            # A server's own user, such as Apache's, reaches the sites below.
            Path(scratch).chmod(0o711)
            command = self._command(point, scratch)
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PROGRAM_SECONDS_MAX
                )
            except subprocess.TimeoutExpired:
                return _Run(command, timed_out=True)
            except OSError as error:
                raise SystemMissing(CouldNotRun(f"cannot run {command[0]}: {error.strerror}", "install it")) from error
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode == EXIT_COULD_NOT_RUN:
            what, _, hint = said.removeprefix("error: ").partition("\nhint: ")
            raise SystemMissing(CouldNotRun(what, hint or None))
        if done.returncode < 0:
            # Ctrl-C on a terminal reaches the program as well as this process.
            raise KeyboardInterrupt
        return _Run(command, done.stdout, said, done.returncode)

    @property
    def program(self) -> Program:
        """The study's programs and metrics."""
        assert self.study.program is not None
        return self.study.program

    def _words(self, point: Point) -> list[str]:
        return self.study.system(point.settings[SYSTEM]).run

    def _command(self, point: Point, scratch: str) -> list[str]:
        places: dict[str, str | int | float] = {"work": scratch, "port": free_port(), "gst_films": str(GST_FILMS)}
        if any("{log}" in word for word in self._words(point)):
            places["log"] = str(log_file(self.study.log, self.work))
        places["seed"] = self.study.seed * 1000 + point.repetition
        if self.program.files is not None:
            root = site(self.program.files, point.settings, self.work, self.study.log)
            places |= {"root": str(root), "mix": str(root / FILELIST)}
        if self.program.films is not None:
            root = films(self.program.films, point.settings, self.work)
            places |= {"root": str(root), "media": str(films_list(root))}
        words = [filled(word, {**point.settings, **places}) for word in self._words(point)]
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
    """The number at a path; None where it or a part of the path is null, unavailable, or not in a list."""
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
        name, chooses, value = step.partition("=")
        if isinstance(found, list) and chooses:
            found = next((each for each in found if isinstance(each, Mapping) and each.get(name) == value), None)
            continue
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
