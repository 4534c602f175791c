"""How every benchmark begins and ends: a signal keeps the results so far, and a failure prints two lines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer

from sojourn.failure import EXIT_COULD_NOT_RUN, CouldNotRun


def run(benchmark: Callable[..., None]) -> None:
    """Runs it with the options of the command line; prints an error in two lines."""
    # However it ends, the results are kept and the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        typer.run(benchmark)
    except CouldNotRun as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_COULD_NOT_RUN)
