"""What Dask loads in each worker process on this machine when it starts.

A terminal sends Ctrl-C to all processes of a command. The command cancels its tasks and closes the workers, which would
otherwise end in the middle of them, each with a traceback.
"""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Called by Dask on the process's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
