"""Runs `sojourn-engine`, which serves and generates load, and reads its JSON object.

The engine is found beside the interpreter (`.venv/bin`), then on `PATH`. Its progress lines (JSON on standard error)
go to a callback; its other lines on standard error become part of the failure's message.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NoReturn, TypeVar

from sojourn import interrupts
from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun

if TYPE_CHECKING:
    # A process that becomes the engine does not need the result types, which take a while to build.
    from pydantic import BaseModel

    from sojourn.engine.progress import ProgressLine

Progress = Callable[["ProgressLine"], None]
T = TypeVar("T", bound="BaseModel")

# How long an interrupted engine may take to print its result before it is killed.
INTERRUPT_GRACE_SECONDS = 15.0
NICEST = 19


def path() -> Path:
    """The path of the installed engine."""
    beside = Path(sys.executable).parent / "sojourn-engine"
    found = beside if beside.is_file() else shutil.which("sojourn-engine")
    if found is None:
        raise CouldNotRun("sojourn-engine is not installed", "run `pip install .` (or `make demo`) in the checkout")
    return Path(found)


def replace_process(arguments: Sequence[str]) -> NoReturn:
    """Replaces this process with the engine, so that no Python remains in the data path."""
    program = str(path())
    # The engine's help and messages then name the typed command.
    os.execv(program, ["sojourn", *arguments])


def run(
    arguments: Sequence[str],
    result: type[T],
    progress: Progress | None = None,
    quiet_cores: frozenset[int] = frozenset(),
) -> T:
    """Runs the engine to its end and returns its `result`; progress is read off the `quiet_cores`.

    Ctrl-C and kill are forwarded to the engine; its result so far is then returned with `complete` false, and
    `KeyboardInterrupt` is raised only if there is none.
    """
    command = [str(path()), *arguments, "--format", "json"]
    if progress is not None:
        command.append("--progress")
    with interrupts.handed_on() as handed:
        with _started(command, progress, quiet_cores) as (process, talk):
            handed.to(lambda: _stop(process))
            assert process.stdout is not None
            output = process.stdout.read()
            process.wait()
        if handed.asked and not output.strip():
            raise KeyboardInterrupt
        if not output.strip() or process.returncode == EXIT_COULD_NOT_RUN:
            raise failure(command, process.returncode, talk)
        found = result.model_validate_json(output)
        if handed.asked and getattr(found, "complete", True):
            handed.not_heard()
    return found


class Stream:
    """A running engine that prints JSON objects, one per line; a context manager and an iterator.

    The engine's last lines still come after `stop`.

    Args:
        arguments: the engine's.
        elsewhere: a command that runs the engine with these arguments on another machine, and takes its program's
            bytes on standard input; it ends when that ends.
    """

    def __init__(self, arguments: Sequence[str], elsewhere: Sequence[str] | None = None) -> None:
        self._command = [str(path()), *arguments] if elsewhere is None else list(elsewhere)
        self._is_elsewhere = elsewhere is not None
        self._count = 0

    def __enter__(self) -> Stream:
        self._context = _started(self._command, given=path() if self._is_elsewhere else None)
        self._process, self._talk = self._context.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.stop()
        self._context.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[str]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            self._count += 1
            yield line
        self._process.wait()

    def stop(self) -> None:
        """Asks the engine to stop."""
        if self._process.stdin is not None:
            # A signal would end the connection but not the engine behind it.
            with suppress(OSError):
                self._process.stdin.close()
            _stop_later(self._process)
        else:
            _stop(self._process)

    def check(self) -> None:
        """After the end: raises the engine's message if it could not run."""
        if self._process.returncode == EXIT_COULD_NOT_RUN or self._count == 0:
            raise failure(self._command, self._process.returncode, self._talk)


def lines(arguments: Sequence[str]) -> Iterator[str]:
    """Runs the engine and yields the JSON lines it prints; only on the main thread.

    Ctrl-C and kill stop the engine, whose last lines still arrive.
    """
    with interrupts.handed_on() as handed:
        with Stream(arguments) as stream:
            handed.to(stream.stop)
            yield from stream
        try:
            stream.check()
        except CouldNotRun:
            if handed.asked:
                raise KeyboardInterrupt from None
            raise


@contextmanager
def _started(
    command: list[str],
    progress: Progress | None = None,
    quiet_cores: frozenset[int] = frozenset(),
    given: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The running engine, and its standard error without progress, which is complete after the end."""
    with begun(command, None if given is None else subprocess.PIPE, subprocess.PIPE) as process:
        talk: list[str] = []
        listener = threading.Thread(target=_listen, args=(process, talk, progress, quiet_cores), daemon=True)
        listener.start()
        if given is not None:
            # The other side reports a failure to write when it ends.
            assert process.stdin is not None
            with suppress(OSError), open(process.stdin.fileno(), "wb", closefd=False) as program:
                program.write(given.read_bytes())
        yield process, talk
        listener.join()


def _stop(process: subprocess.Popen[str]) -> None:
    """Asks the engine to stop, and kills it if it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    _stop_later(process)


def _stop_later(process: subprocess.Popen[str]) -> None:
    last = threading.Timer(INTERRUPT_GRACE_SECONDS, process.kill)
    last.daemon = True
    last.start()


def _listen(
    process: subprocess.Popen[str], talk: list[str], progress: Progress | None, quiet_cores: frozenset[int]
) -> None:
    from sojourn.engine.progress import parse

    for line in json_lines(process, talk, quiet_cores):
        if progress is not None:
            progress(parse(line))


def begun(command: Sequence[str], stdin: int | None, stdout: IO[str] | int) -> subprocess.Popen[str]:
    """An engine in its own process group, so that Ctrl-C on a terminal reaches only this process.

    This hands it on once: a second signal would kill the engine before it prints its result. If this process is
    killed, the engine ends, too: where it is given a standard input, by the end of that.
    """
    words = tied(command, "INT") if stdin is None else command
    return subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, process_group=0)


def tied(command: Sequence[str], ending: str, script: str = 'exec "$@"') -> list[str]:
    """A shell that runs the command by `script`, and gets the signal `ending` if the calling thread ends before."""
    shell = ["sh", "-c"]
    if (setpriv := shutil.which("setpriv")) is None:
        return [*shell, script, "sh", *command]
    # This process may have died before setpriv requested the signal, so the shell checks that it is alive.
    still_ours = f'[ "$PPID" = "$0" ] || exit 1; {script}'
    return [setpriv, "--pdeathsig", ending, *shell, still_ours, str(os.getpid()), *command]


def json_lines(process: subprocess.Popen[str], talk: list[str], quiet_cores: frozenset[int]) -> Iterator[str]:
    """The JSON lines on its standard error, for a thread of their own; its other lines are added to `talk`."""
    assert process.stderr is not None
    stand_back(quiet_cores)
    for line in process.stderr:
        if line.startswith("{"):
            yield line
        else:
            talk.append(line.rstrip())


def stand_back(quiet_cores: frozenset[int]) -> None:
    """Gives the calling thread the lowest priority and, where there are other cores, keeps it off these."""
    thread = threading.get_native_id()
    # On Linux both calls affect the thread alone.
    os.setpriority(os.PRIO_PROCESS, thread, NICEST)
    others = os.sched_getaffinity(0) - quiet_cores
    if others:
        os.sched_setaffinity(thread, others)


def failure(command: Sequence[str], code: int, talk: Sequence[str]) -> CouldNotRun:
    """What an engine that could not run has said."""
    said = "\n".join(talk).removeprefix("error: ") or f"{' '.join(command[:2])} ended with exit code {code}"
    what, _, hint = said.partition("\nhint: ")
    return CouldNotRun(what, hint or None)
