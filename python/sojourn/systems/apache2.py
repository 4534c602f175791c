"""Apache httpd, with threads (event MPM) or a process per connection (prefork).

Event: idle connections wait in the listener, and a worker thread serves a connection for one request. Prefork: a
process serves a connection until it ends, like the Apache of the literature.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.configured import Configured
from sojourn.systems.running import Running
from sojourn.systems.server import Launch

UNPRIVILEGED = ("www-data", "nobody")
PROCESSES_MAX = 512
"""The most simultaneous connections of the prefork MPM; others wait."""
EVENT = """
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
# One process as for the other servers, with as many threads as Apache's own default has in all its processes. While
# all are busy it closes connections that are kept alive: with 64 a pause of 4 ms at 18,000 requests/s was enough, and
# the new connections kept them busy. Each idle one lets the listener hold AsyncRequestWorkerFactor connections more.
StartServers 1
ServerLimit 1
ThreadsPerChild 400
ThreadLimit 400
MaxRequestWorkers 400
AsyncRequestWorkerFactor $connections
MinSpareThreads 1
MaxSpareThreads 400
"""
PREFORK = f"""
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
# All of them from the start: Apache would double their number once a second, which is its start-up and no server's.
StartServers {PROCESSES_MAX}
ServerLimit {PROCESSES_MAX}
MaxRequestWorkers {PROCESSES_MAX}
MinSpareServers 1
MaxSpareServers {PROCESSES_MAX}
"""
COMBINED = '"%h %l %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-agent}i\\""'


@dataclass(frozen=True)
class Apache2(Configured):
    """Apache refuses to serve as root, so the folder must be accessible to the user it switches to."""

    def start(self, launch: Launch) -> Running:
        """See `Configured`; first checks the folder's permissions if the user will change."""
        if os.geteuid() == 0:
            _require_open_to_others((launch.mount.folder if launch.mount else launch.root).resolve())
        return super().start(launch)


def _require_open_to_others(folder: Path) -> None:
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & stat.S_IXOTH:
            raise CouldNotRun(
                f"apache2 does not run as root, and other users may not enter {each}",
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
    variant=EVENT,
)
APACHE2_PREFORK = replace(APACHE2, name="apache2-prefork", program="apache2", template="apache2", variant=PREFORK)
