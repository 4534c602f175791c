"""Independent tasks, run one after the other in this process or side by side on a cluster.

A task is a function of a module and its arguments. Its result depends on nothing else: a task that needs random
numbers has its seed among its arguments. So the results are the same wherever, how often and in which order tasks run,
and a task that was lost with a worker or a scheduler runs again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sojourn.failure import CouldNotRun

T = TypeVar("T")


class WorkerLost(Exception):
    """A worker has died or cannot be reached."""


class ClusterLost(CouldNotRun):
    """The cluster is gone; outcomes that had come are the caller's."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The outcome of a task: its result, or the reason why it has none."""

    place: int
    """Its place in the order in which tasks were given."""
    value: T | None
    failure: Exception | None = None
    """The error that it raised, or why it could not be run."""

    def result(self) -> T:
        """Its value; raises its failure."""
        if self.failure is not None:
            raise self.failure
        return self.value  # type: ignore[return-value]


class Tasks(Protocol):
    """Where tasks run."""

    @property
    def threads(self) -> int:
        """How many tasks run at once."""
        ...

    def each(
        self,
        function: Callable[..., T],
        arguments: Iterable[tuple[object, ...]],
        *,
        same_worker: bool = False,
        ahead_max: int | None = None,
    ) -> Generator[Outcome[T]]:
        """Runs `function` with each of the arguments, and yields outcomes as they come.

        Arguments are drawn when there is room for another task, so that whoever gives them can stop giving. Closing
        the iterator cancels what has not begun. With `same_worker`, the task in a place runs where the one in that
        place ran before, if it can: it may have left something there that saves it work. With `ahead_max`, no task
        begins so many places behind the first without an outcome: who needs outcomes in order has never to hold more.
        """
        ...

    def ask(self, worker: str, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function that answers at once, beside the tasks of the worker at an address (`worker_address`).

        Raises:
            WorkerLost: the worker is gone.
        """
        ...

    def shared(self, value: T) -> T:
        """The value as an argument of many tasks: sent to each worker once."""
        ...


def worker_address() -> str:
    """The address of the worker that runs this task; empty in a process that is none."""
    # A worker has Dask.
    if (distributed := sys.modules.get("distributed")) is None:
        return ""
    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""


class InProcess:
    """Runs tasks one after the other in this process."""

    threads = 1

    def ask(self, worker: str, function: Callable[..., T], *arguments: object) -> T:
        """See `Tasks.ask`."""
        return function(*arguments)

    def each(
        self,
        function: Callable[..., T],
        arguments: Iterable[tuple[object, ...]],
        *,
        same_worker: bool = False,
        ahead_max: int | None = None,
    ) -> Generator[Outcome[T]]:
        """See `Tasks.each`."""
        for place, given in enumerate(arguments):
            try:
                value = function(*given)
            except Exception as error:
                yield Outcome(place, None, error)
            else:
                yield Outcome(place, value)

    def shared(self, value: T) -> T:
        """See `Tasks.shared`."""
        return value


def in_order(outcomes: Iterable[Outcome[T]], told: Callable[[int], object] = lambda done: None) -> list[T]:
    """All values in the order of their tasks; raises the first failure that comes.

    `told` is called with the number of tasks done.
    """
    values: dict[int, T] = {}
    for outcome in outcomes:
        values[outcome.place] = outcome.result()
        told(len(values))
    return [values[place] for place in sorted(values)]
