"""What a database says of its connections at one moment, and a client program that is asked for it again and again."""

from __future__ import annotations

import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from sojourn.failure import CouldNotRun

ANSWER_SECONDS_MAX = 10.0


@dataclass
class Activity:
    """The connections at one moment: backends in PostgreSQL, threads in MySQL."""

    backends: int = 0
    active: int = 0
    in_transaction: int = 0
    """Backends idle in a transaction: the application keeps the connection and does something else."""
    waits: dict[str, int] = field(default_factory=dict)
    """Active backends that wait, by kind: `Lock`, `IO`, and whatever else PostgreSQL names."""
    commits: float = 0.0
    connections_max: int = 0

    @property
    def in_use(self) -> int:
        """Connections occupied by requests."""
        return self.active + self.in_transaction


class Session(ABC):
    """A client program of a database that answers repeated queries; a context manager."""

    name: ClassVar[str]
    """Of the database."""
    programs: ClassVar[Sequence[str]]
    """The client programs that will do, the preferred one first."""
    package: ClassVar[str]
    """Debian's package that has one."""
    option: ClassVar[str]
    """The option with the connection, and how it is written."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program or next((found for each in self.programs if (found := shutil.which(each))), "")
        if not self._program:
            named = " or ".join(self.programs)
            raise CouldNotRun(
                f"there is no {named} to ask {self.name} with", f"on Debian: apt-get install {self.package}"
            )

    @abstractmethod
    def words(self) -> list[str]:
        """The program's options."""

    @abstractmethod
    def activity(self) -> Activity:
        """The current activity.

        Raises:
            CouldNotRun: the database does not answer.
        """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self._program, *self.words()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            self.activity()
        except CouldNotRun:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def ask(self, query: str, is_last: Callable[[str], bool]) -> list[str]:
        """The lines of the answer, up to one that is the last.

        Raises:
            CouldNotRun: the answer ends before, or does not come in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = list[str]()
        # A database that hangs must not block the assessment.
        guard = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        guard.start()
        try:
            self._process.stdin.write(query + "\n")
            self._process.stdin.flush()
            while line := self._process.stdout.readline():
                lines.append(line.rstrip("\n"))
                if is_last(lines[-1]):
                    return lines
        except OSError:
            lines.clear()
        finally:
            guard.cancel()
        raise CouldNotRun(f"{self.name} says nothing of itself: {self._failure()}", f"give {self.option}")

    def _failure(self) -> str:
        assert self._process.stderr is not None
        self._process.kill()
        said = self._process.stderr.read().strip().splitlines()
        name = self._program.rpartition("/")[2]
        return said[0].removeprefix(f"{name}: error: ") if said else "no answer in time"
