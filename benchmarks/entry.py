"""How every benchmark begins and ends: a signal keeps what was measured, and a failure is two lines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer

from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun


def run(benchmark: Callable[..., None]) -> None:
    """Runs it with the command line's options, and says in two lines what it could not do."""
    # However it ends, what was measured is kept and the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        typer.run(benchmark)
    except CouldNotRun as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_COULD_NOT_RUN)
