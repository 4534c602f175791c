"""nginx from the distribution, one worker, on a configuration of its own in the run's work folder."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from pathlib import Path
from string import Template

from sojourn import cores
from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running, accepts, free_port, start_process, wait_until
from sojourn.systems.server import Launch

# Debian installs it where ordinary users' PATH does not look.
USUAL_PLACES = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")


class Nginx:
    """nginx as the second system under test."""

    name = "nginx"
    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it in the foreground; its master is our child and dies with the context."""
        program = _program()
        port = free_port()
        configuration = launch.work / "nginx.conf"
        template = Template(Path(__file__).with_name("nginx.conf.template").read_text())
        configuration.write_text(
            template.substitute(user=_user(), work=launch.work, root=launch.root.resolve(), port=port)
        )
        said = launch.work / "nginx.log"
        command = [
            program,
            "-p",
            str(launch.work),
            "-c",
            str(configuration),
            "-e",
            str(launch.work / "error.log"),
        ]
        process = start_process(cores.pinned_command(launch.core, command), said)
        wait_until(lambda: accepts(port), process, "nginx", said)
        return Running(f"http://127.0.0.1:{port}", _version(program), command, process, [process.pid])


def _user() -> str:
    # Started by root, workers would change to `nobody`, who may not reach the folder.
    return f"user {getpass.getuser()};" if os.geteuid() == 0 else ""


def _program() -> str:
    found = shutil.which("nginx") or next((place for place in USUAL_PLACES if Path(place).is_file()), None)
    if found is None:
        raise CouldNotRun("nginx is not installed", "on Debian or Ubuntu: apt-get install nginx-light")
    return found


def _version(program: str) -> str:
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr
    return said.strip().rpartition("/")[2] or "unknown"
