"""An engine that prepares itself, and begins when its standard input tells it to (`--start-on-stdin`)."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from sojourn.engine.process import begun, failure, json_lines


class Prepared:
    """A running engine. It starts at once; `end` ends it, whatever it does.

    Args:
        command: the engine with its options.
        printed: receives its result.
        told: called with each JSON line on its standard error, on a thread of its own.
        quiet_cores: the cores where these lines are not read.
    """

    def __init__(
        self,
        command: Sequence[str],
        printed: IO[str],
        told: Callable[[str], None] | None = None,
        quiet_cores: frozenset[int] = frozenset(),
    ) -> None:
        self._command = list(command)
        self._told = told
        self._process = begun(command, subprocess.PIPE, printed)
        self.is_ready = False
        self.talk: list[str] = []
        """Its lines on standard error, without progress."""
        self._has_said = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(quiet_cores,), daemon=True)
        self._listener.start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_ready(self) -> None:
        """Waits until it has prepared itself.

        Raises:
            CouldNotRun: it ended instead.
        """
        self._has_said.wait()
        if not self.is_ready:
            raise failure(self._command, self._process.wait(), self.talk)

    def say(self, line: str) -> None:
        """Gives it a line. One that has ended is noticed by what it does not say."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def wait(self, seconds: float | None = None) -> int:
        """Waits for its end, and returns its exit code.

        Raises:
            TimeoutError: it has not ended in time.
        """
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        self._listener.join()
        return code

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Kills it if it still runs, and gives everything back."""
        if not self.has_ended:
            self.kill()
        self.wait()
        for stream in (self._process.stdin, self._process.stderr):
            # What could not be said to one that is gone is still to be written.
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def _listen(self, quiet_cores: frozenset[int]) -> None:
        for line in json_lines(self._process, self.talk, quiet_cores):
            if '"ready"' in line:
                self.is_ready = True
                self._has_said.set()
            elif self._told is not None:
                self._told(line)
        self._has_said.set()
