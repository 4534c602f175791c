"""A load generator on a worker of a cluster: what runs there, and what its controller asks meanwhile.

`generate` is the task: it starts the engine, which prepares and waits, and returns what the engine printed. The other
functions answer the controller while the task runs, each within milliseconds: what the engine has said, the time, a
line for it, a piece of a file that its options name. An engine whose worker dies loses its standard input, stops, and
leaves its result in the run's folder, which `end` removes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sojourn import engine
from sojourn.engine import Prepared
from sojourn.failure import CouldNotRun
from sojourn.loading.load_files import USERS_FILE
from sojourn.loading.run import option

UNHEARD_SECONDS_MAX = 30.0
"""An engine whose controller has asked nothing for so long is told to stop: the controller is gone."""
STOP_SECONDS_MAX = 15.0
"""How long an engine that was told to stop may take to print its result."""
_LOOK_SECONDS = 0.2
RESULT = "result.json"
"""What the engine printed, in the folder of its run."""


@dataclass(frozen=True)
class Ended:
    """An engine that has ended: its output, its last messages, its exit code."""

    output: str
    talk: str
    """Its last lines on standard error, without progress."""
    code: int
    users: str | None = None
    """The users of `--users-file` as it left them."""


@dataclass(frozen=True)
class EngineStatus:
    """What an engine has said since the controller last asked."""

    is_ready: bool
    folder: str
    """Where its result is until `end`."""
    progress: Sequence[str] = ()


@dataclass
class _Generator:
    """The engine of a task, while it runs."""

    folder: Path
    engine: Prepared | None = None
    heard: float = field(default_factory=time.monotonic)
    """When the controller last asked, by this machine's monotonic clock."""
    progress: list[str] = field(default_factory=list)


_generators: dict[str, _Generator] = {}
"""By the name of their run; a worker generates one load at a time, because it has one unit of the resource."""


def receive(name: str, file: int | str, piece: bytes) -> None:
    """Appends to a file that the options of a run name, or to one beside it; before its task begins."""
    folder = _folder(name)
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / str(file)).open("ab") as stream:
        stream.write(piece)


def generate(name: str, options: Sequence[str], files: Sequence[int], quiet_cores: frozenset[int]) -> Ended:
    """Runs the engine and returns what it printed; it waits for `say` to tell it when to start.

    Args:
        name: of the run, by which the controller asks for it.
        options: the tool and its options.
        files: the places in `options` of files that were received.
        quiet_cores: the cores of the generator and of the server, where the lines are not read.
    """
    folder = _folder(name)
    folder.mkdir(mode=0o700, exist_ok=True)
    words = [str(folder / str(place)) if place in files else word for place, word in enumerate(options)]
    generator = _generators[name] = _Generator(folder)
    try:
        # Its result goes to a file, because it outlives a worker that dies.
        with (folder / RESULT).open("w") as printed:
            command = [str(engine.path()), *words, "--format", "json", "--progress", "--start-on-stdin"]
            running = Prepared(command, printed, lambda line: generator.progress.append(line), quiet_cores)
            generator.engine = running
            threading.Thread(target=_stop_unheard, args=(generator, running), daemon=True).start()
            try:
                code = running.wait()
            finally:
                running.end()
        users = option(words, USERS_FILE)
        kept = None if users is None else Path(users).read_text()
        return Ended((folder / RESULT).read_text(), "; ".join(running.talk), code, kept)
    except OSError as error:
        raise CouldNotRun(f"the engine does not start: {error}", "is the same version of sojourn installed?") from error
    finally:
        _generators.pop(name, None)


def status(name: str) -> EngineStatus:
    """What the engine of a run has said since the last call."""
    generator, folder = _generators.get(name), str(_folder(name))
    if generator is None:
        return EngineStatus(is_ready=False, folder=folder)
    generator.heard = time.monotonic()
    lines, generator.progress = generator.progress, []
    return EngineStatus(generator.engine is not None and generator.engine.is_ready, folder, lines)


def clock() -> float:
    """The time of this machine in seconds since 1970."""
    return time.time()


def say(name: str, line: str) -> None:
    """Gives the engine of a run a line on its standard input."""
    if (generator := _generators.get(name)) is not None:
        generator.heard = time.monotonic()
        if generator.engine is not None:
            generator.engine.say(line)


def kill(name: str) -> None:
    """Kills the engine of a run, if it still runs."""
    if (generator := _generators.get(name)) is not None and generator.engine is not None:
        generator.engine.kill()


def end(name: str) -> None:
    """Kills the engine of a run, if it still runs, and removes the run's folder."""
    kill(name)
    shutil.rmtree(_folder(name), ignore_errors=True)


def _stop_unheard(generator: _Generator, running: Prepared) -> None:
    while not running.has_ended:
        time.sleep(_LOOK_SECONDS)
        if time.monotonic() - generator.heard > UNHEARD_SECONDS_MAX:
            running.talk.append(f"its controller was not heard of for {UNHEARD_SECONDS_MAX:g} s")
            running.say("stop")
            with contextlib.suppress(TimeoutError):
                running.wait(STOP_SECONDS_MAX)
            running.kill()


def _folder(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"sojourn-load-{os.getpid()}-{name}"
