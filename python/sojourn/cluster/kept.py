"""Keeps what tasks have returned in a file, so that the same command goes on where it was cut short.

Tasks depend on their arguments alone, and a command asks for the same tasks in the same order each time. So a value is
known by the number of its batch and its place there, as long as everything that the command was asked for is the same.
The file is read as data: values are validated by the type that their function says it returns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from sojourn import __version__
from sojourn.cluster.tasks import Outcome, Tasks
from sojourn.results import writing

T = TypeVar("T")

Returns = Mapping[Callable[..., Any], Callable[..., Any]]
"""By function, where its annotation does not say it: the type that it returns for given arguments."""


def returned(function: Callable[..., Any]) -> Any:
    """The type that a function is annotated to return."""
    return get_type_hints(function)["return"]


@contextmanager
def kept(tasks: Tasks, path: Path | None, asked: object, returns: Returns | None = None) -> Iterator[Tasks]:
    """Tasks whose values are in a file at `path` until the block ends without an error; without a path, `tasks`.

    Args:
        tasks: where tasks run that have no value yet.
        path: the file.
        asked: everything that the values depend on, as JSON; values of anything else are dropped.
        returns: the types of functions that return `Any`.
    """
    if path is None:
        yield tasks
        return
    values = _Values(path, json.dumps([__version__, asked], sort_keys=True))
    try:
        yield _KeptTasks(tasks, values, returns or {})
    finally:
        values.close()
    path.unlink(missing_ok=True)


class _Values:
    """The values in the file, as JSON by batch and place."""

    def __init__(self, path: Path, asked: str) -> None:
        self._path = path
        self._values: dict[tuple[int, int], Any] = {}
        lines = _lines(path)
        if next(lines, None) == {"asked": asked}:
            self._values = {(line["batch"], line["place"]): line["value"] for line in lines if "value" in line}
        self._file: IO[str] | None = None
        # What is known is in a file all the time, whenever this is killed.
        written = path.with_name(f"{path.name}.partial")
        try:
            self._file = written.open("w")
        except OSError as error:
            self._missed(error)
        self._write({"asked": asked})
        for (batch, place), value in self._values.items():
            self._write({"batch": batch, "place": place, "value": value})
        if self._file is not None:
            written.replace(path)

    def of(self, batch: int, place: int, kind: TypeAdapter[T]) -> Outcome[T] | None:
        """The outcome of a task, if it is known."""
        if (batch, place) not in self._values:
            return None
        try:
            return Outcome(place, kind.validate_python(self._values[batch, place]))
        except ValidationError:
            return None

    def keep(self, batch: int, place: int, value: object) -> None:
        """Keeps a value."""
        self._write({"batch": batch, "place": place, "value": _plain(value)})

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: Mapping[str, object]) -> None:
        if self._file is None:
            return
        try:
            # Python's JSON has infinities, and every float comes back as it was.
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            self._missed(error)

    def _missed(self, error: OSError) -> None:
        """A full disk takes only what it holds: the command goes on."""
        writing.missed(self._path, writing.reason(error))
        self._file = None


class _KeptTasks:
    """Yields values that are kept, and runs the other tasks."""

    def __init__(self, tasks: Tasks, values: _Values, returns: Returns) -> None:
        self._tasks, self._values, self._returns = tasks, values, returns
        self._batch = 0

    def shared(self, value: T) -> T:
        """See `Tasks.shared`."""
        return self._tasks.shared(value)

    @property
    def threads(self) -> int:
        """See `Tasks.threads`."""
        return self._tasks.threads

    def ask(self, worker: str, function: Callable[..., T], *arguments: object) -> T:
        """See `Tasks.ask`."""
        return self._tasks.ask(worker, function, *arguments)

    def each(
        self,
        function: Callable[..., T],
        arguments: Iterable[tuple[object, ...]],
        *,
        same_worker: bool = False,
        ahead_max: int | None = None,
    ) -> Generator[Outcome[T]]:
        """See `Tasks.each`."""
        self._batch += 1
        batch, known, places = self._batch, list[Outcome[T]](), list[int]()
        kind = None if function in self._returns else TypeAdapter(returned(function))

        def missing() -> Iterator[tuple[object, ...]]:
            for place, words in enumerate(arguments):
                outcome = self._values.of(batch, place, kind or TypeAdapter(self._returns[function](*words)))
                if outcome is None:
                    places.append(place)
                    yield words
                else:
                    known.append(outcome)

        with closing(self._tasks.each(function, missing(), same_worker=same_worker, ahead_max=ahead_max)) as outcomes:
            for outcome in outcomes:
                outcome = replace(outcome, place=places[outcome.place])
                if outcome.failure is None:
                    self._values.keep(batch, outcome.place, outcome.value)
                yield outcome
                yield from known
                known.clear()
        yield from known


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines up to the first that is damaged: a command that was killed may have left half of one."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            return
        if not isinstance(found, dict):
            return
        yield found


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
