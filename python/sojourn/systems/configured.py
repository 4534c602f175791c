"""Servers of the distribution: each runs in the foreground on one core, with our configuration.

They differ by a template and a few words in their files; finding the program, filling in the template, starting and
waiting are common.
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

# Debian installs servers outside an ordinary user's PATH.
USUAL_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/usr/local/bin")
CONNECTIONS_MAX = 200_000
DESCRIPTORS_RESERVED = 1_000
"""A server's file descriptors other than connections: open files, logs, pipes."""
_VERSION = re.compile(r"\d+\.\d+[.\w~-]*")


@dataclass(frozen=True)
class Configured:
    """A server with a configuration file; templates may use `$work`, `$user` and the other names of `_values`."""

    name: str
    """Its name, also the default of its program and of its template, `NAME.conf.template`."""
    package: str
    """The Debian package."""
    arguments: tuple[str, ...]
    """Arguments that keep it in the foreground."""
    version_option: str
    access_log_off: str
    """The configuration without an access log, and with the cheapest one that the server offers."""
    access_log_on: str
    """Empty if it is not set up for a log in a format that can be read."""
    user: str = ""
    """The configuration that keeps it from switching to another user."""
    program: str = ""
    """The program's name, if different."""
    template: str = ""
    """The template's name, if not its own."""
    variant: str = ""
    """The configuration that distinguishes systems with the same template."""
    secure: str = ""
    """The configuration of a server with a `$certificate` and its `$key`, if the template supports TLS."""
    secure_listen: str = ""
    """What is said of TLS where the port is."""

    has_architectures = False
    builds_site = True
    asks_upstream = False
    """True for a proxy, which reads no files."""

    def start(self, launch: Launch) -> Running:
        """Starts it in the foreground as a child process, whose workers die with it."""
        program = self._program_for(launch)
        port = free_port()
        values = self._values(launch, port)
        self._configure(values)
        command = [program, *(Template(argument).substitute(values) for argument in self.arguments)]
        said = launch.work / f"{self.name}.log"
        process = start_process(launch.command(command), said)
        wait_until(lambda: accepts(port), process, self.name, said)
        scheme = "http" if launch.certificate is None else "https"
        return Running(f"{scheme}://127.0.0.1:{port}", self._version(program), command, process, [process.pid])

    def _program_for(self, launch: Launch) -> str:
        """Returns the path of the program, if it is installed and can do what is wanted."""
        if launch.address != LOOPBACK:
            raise CouldNotRun(f"{self.name} listens only on the loopback here", "behind a link, study sojourn itself")
        if launch.access_log and not self.access_log_on:
            raise CouldNotRun(f"{self.name} writes no access log here", "measure it without")
        if launch.content is not None and not self.asks_upstream:
            raise CouldNotRun(f"{self.name} cannot read {launch.content}", "give it a mounted file system, or a proxy")
        if launch.options:
            raise CouldNotRun(f"{self.name} takes no options here", "it is configured by its file only")
        if launch.certificate is not None and not self.secure:
            raise CouldNotRun(f"{self.name} is not set up for TLS here", "choose nginx, h2o, caddy or sojourn")
        return self._program()

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
        # Started by root it would switch to a user such as `nobody`, who may lack access to the folder.
        user = self.user if os.geteuid() == 0 else ""
        secure = ""
        if launch.certificate is not None:
            files = {"certificate": str(launch.certificate.chain), "key": str(launch.certificate.key)}
            secure = Template(self.secure).substitute(files)
        return values | {
            "secure": secure,
            "secure_listen": self.secure_listen if launch.certificate is not None else "",
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
