"""Servers of the distribution: each runs in the foreground on one core, on a configuration of ours.

They differ by a template and a few words, which their files hold; finding the program, filling the template in,
starting and waiting is the same for all.
"""

from __future__ import annotations

import getpass
import os
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from string import Template

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running, accepts, free_port, start_process, wait_until
from sojourn.systems.server import LOOPBACK, Launch

# Debian installs servers where ordinary users' PATH does not look.
USUAL_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/usr/local/bin")
CONNECTIONS_MAX = 200_000
DESCRIPTORS_RESERVED = 1_000
"""Descriptors of a server that are not connections: open files, logs, pipes."""
_VERSION = re.compile(r"\d+\.\d+[.\w~-]*")


@dataclass(frozen=True)
class Configured:
    """A server with a configuration file; texts may use `$work`, `$user` and what else `_values` gives."""

    name: str
    """Its name here, of its program if nothing else is said, and of its template, `NAME.conf.template`."""
    package: str
    """Debian's package that has it."""
    arguments: tuple[str, ...]
    """What it is started with, so that it stays in the foreground."""
    version_option: str
    access_log_off: str
    """The configuration's words for no access log, and for one that is as cheap as the server can make it."""
    access_log_on: str
    user: str = ""
    """The words that keep it from changing to another user where it would."""
    program: str = ""
    """Its program, if that has another name."""
    template: str = ""
    """Whose template it takes, if not its own."""
    variant: str = ""
    """The configuration's words that tell this system from others with its template."""

    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it in the foreground; the process is our child and its workers die with it."""
        if launch.address != LOOPBACK:
            raise CouldNotRun(f"{self.name} listens on the loopback alone here", "behind a link, study sojourn itself")
        if launch.options:
            raise CouldNotRun(f"{self.name} takes no options here", "it is set up by its configuration file alone")
        program = self._program()
        port = free_port()
        values = self._values(launch, port)
        self._configure(values)
        command = [program, *(Template(argument).substitute(values) for argument in self.arguments)]
        said = launch.work / f"{self.name}.log"
        process = start_process(launch.command(command), said)
        wait_until(lambda: accepts(port), process, self.name, said)
        return Running(f"http://127.0.0.1:{port}", self._version(program), command, process, [process.pid])

    def _configure(self, values: dict[str, str]) -> None:
        template = Template(Path(__file__).with_name(f"{self.template or self.name}.conf.template").read_text())
        Path(values["configuration"]).write_text(template.substitute(values))

    def _values(self, launch: Launch, port: int) -> dict[str, str]:
        descriptors = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], CONNECTIONS_MAX + DESCRIPTORS_RESERVED)
        work = launch.work.resolve()
        values = {
            "work": str(work),
            "root": str(launch.root.resolve()),
            "port": str(port),
            "configuration": str(work / f"{self.name}.conf"),
            "descriptors": str(descriptors),
            "connections": str(descriptors - DESCRIPTORS_RESERVED),
            "login": getpass.getuser(),
        }
        access_log = self.access_log_on if launch.access_log else self.access_log_off
        # Started by root it would change to `nobody` or the like, which may not reach the folder.
        user = self.user if os.geteuid() == 0 else ""
        return values | {
            "access_log": Template(access_log).substitute(values),
            "variant": Template(self.variant).substitute(values),
            "user": Template(user).substitute(values),
        }

    def _program(self) -> str:
        name = self.program or self.name
        found = shutil.which(name) or shutil.which(name, path=":".join(USUAL_PLACES))
        if found is None:
            raise CouldNotRun(f"{name} is not installed", f"on Debian or Ubuntu: apt-get install {self.package}")
        return found

    def _version(self, program: str) -> str:
        done = subprocess.run([program, self.version_option], capture_output=True, text=True, check=False)
        version = _VERSION.search(done.stdout + done.stderr)
        return version[0] if version else "unknown"
