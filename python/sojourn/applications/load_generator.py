"""The load generator of this machine: an engine that prepares a load, begins it when told to, and prints the result."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from pydantic import ValidationError

from sojourn import engine
from sojourn.engine.progress import parse
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.machine.cores import pinned_command

TIMEOUT_SECONDS = 10.0
"""A response that takes longer has failed."""
DRAIN_SECONDS = 5.0
"""How long the answers of a load are waited for when it is over."""
GRACE_SECONDS = 30.0
"""Beyond its time-outs, an engine that does not end has broken."""
OPTIONS = (
    f"--timeout {TIMEOUT_SECONDS:g}s --drain {DRAIN_SECONDS:g}s --abandoned-limit 100% "
    # On the application's cores, its answers would also wait for the generator.
    "--wait sleep --real-time"
).split()
"""Of every load, whatever machine makes it."""


class LoadGenerator:
    """A running load generator; a context manager.

    Args:
        options: of the load: its URL, what is asked for, how often, and how long.
        core: where it stays; anywhere if not given.
        progress: receives a line per second.
    """

    def __init__(
        self, options: Sequence[str], core: int | None = None, progress: engine.Progress | None = None
    ) -> None:
        command = [str(engine.path()), "load", *options, "--embed", "--each-request", "--format", "json"]
        command += ["--start-on-stdin"] if progress is None else ["--start-on-stdin", "--progress"]
        told = None if progress is None else lambda line: progress(parse(line))
        with ExitStack() as stack:
            self._printed = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._engine = engine.Prepared(pinned_command(core, command), self._printed, told)
            stack.callback(self._engine.end)
            self._stack = stack.pop_all()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_ready(self) -> None:
        """Until it has prepared itself.

        Raises:
            CouldNotRun: it refuses.
        """
        try:
            self._engine.wait_ready()
        except CouldNotRun as failure:
            said = "\n".join(line for line in failure.what.splitlines() if not line.startswith("warning: "))
            what = said.removeprefix("error: ")
            raise CouldNotRun(f"the load cannot be made: {what}", failure.hint) from failure

    def go(self, start: float) -> None:
        """Begins at that time, in seconds since 1970."""
        self._engine.say(f"go {start:.6f}")

    def stop(self) -> None:
        """Ends early; what was measured comes all the same."""
        self._engine.say("stop")

    def result(self, seconds: float) -> LoadResult:
        """Waits for the result, at most this long plus the timeouts of requests.

        Raises:
            CouldNotRun: there is none.
        """
        try:
            self._engine.wait(seconds + TIMEOUT_SECONDS + GRACE_SECONDS)
            self._printed.seek(0)
            return LoadResult.of(RequestsRecord.model_validate_json(self._printed.read()))
        except (ValidationError, TimeoutError) as error:
            raise CouldNotRun("the load ended without a result") from error
