"""Apache httpd with the event MPM: one process, a listener thread and worker threads.

Idle connections wait in the listener; a worker thread has a connection for as long as a request takes.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.configured import Configured
from sojourn.systems.running import Running
from sojourn.systems.server import Launch

UNPRIVILEGED = ("www-data", "nobody")
COMBINED = '"%h %l %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-agent}i\\""'


@dataclass(frozen=True)
class Apache2(Configured):
    """Apache refuses to serve as root, so that the folder must be open to the user it changes to."""

    def start(self, launch: Launch) -> Running:
        """See `Configured`; checks the folder first where the user will change."""
        if os.geteuid() == 0:
            _require_open_to_others(launch.root.resolve())
        return super().start(launch)


def _require_open_to_others(folder: Path) -> None:
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & stat.S_IXOTH:
            raise CouldNotRun(
                f"apache2 does not serve as root, and other users may not enter {each}",
                f"chmod o+x {each}, or give a folder elsewhere",
            )


def _unprivileged() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in UNPRIVILEGED if name in known), "nobody")


APACHE2 = Apache2(
    name="apache2",
    package="apache2-bin",
    arguments=("-D", "FOREGROUND", "-d", "$work", "-f", "$configuration"),
    version_option="-v",
    access_log_off="",
    access_log_on=f"BufferedLogs On\nCustomLog $work/access.log {COMBINED}",
    user=f"User {_unprivileged()}",
)
