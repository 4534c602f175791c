"""Our own web server, in any of its architectures."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from sojourn import __version__, engine
from sojourn.systems.running import Running, start_process, wait_until
from sojourn.systems.server import Launch

HELPERS = 4
HELPERS_OPTION = "--helpers"
BODY_CACHE = "--body-cache"
BODY_CACHE_PART = 2
"""The part of its memory that a server without files of its own has for bodies, where others have the page cache."""
ONE_CACHE = ("amped", "sped", "mt")
"""The architectures with a cache for all connections."""
_LISTENING = re.compile(r"^listening on (\S+)$", re.MULTILINE)
_LISTENING_BY_TLS = re.compile(r"^listening on (\S+) \(TLS\)$", re.MULTILINE)
_METRICS = re.compile(r"^metrics on (\S+)$", re.MULTILINE)
_SAMPLE = re.compile(r"^(?P<name>[a-z_]+(?:\{[^}]*\})?) (?P<value>\S+)$", re.MULTILINE)


class Sojourn:
    """`sojourn-engine serve`."""

    name = "sojourn"
    has_architectures = True
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it on a free port."""
        # Configured like the peers, where they have helpers.
        helpers = launch.helpers or HELPERS
        words = ["serve", launch.content or str(launch.root), *of_architecture(launch)]
        if HELPERS_OPTION in launch.options:
            helpers = int(launch.options[launch.options.index(HELPERS_OPTION) + 1])
        else:
            words += [HELPERS_OPTION, str(helpers)]
        memory = launch.confinement and launch.confinement.memory_bytes
        if launch.content is not None and memory and launch.architecture in ONE_CACHE:
            words += [BODY_CACHE, f"{memory // BODY_CACHE_PART}B"]
        running = start_engine(launch, words, launch.work / "sojourn-serve.log")
        running.helpers = helpers if launch.architecture == "amped" else None
        return running


def of_architecture(launch: Launch) -> list[str]:
    """The options for servers with architectures."""
    return ["--architecture", launch.architecture, "--defer-accept", "1s"]


def start_engine(launch: Launch, words: list[str], said: Path, scheme: str = "http") -> Running:
    """Starts the engine as a server on a free port; `words` are the server's own options."""
    command = [str(engine.path()), *words, "--listen", f"{launch.address}:0", "--admin-listen", "127.0.0.1:0"]
    command += launch.options
    listening = _LISTENING
    if launch.certificate is not None:
        listening, scheme = _LISTENING_BY_TLS, "https"
        files = ["--tls-certificate", str(launch.certificate.chain), "--tls-key", str(launch.certificate.key)]
        command += ["--tls-listen", f"{launch.address}:0", *files]
    if launch.access_log:
        command += ["--access-log", str(launch.work / "access.log")]
    process = start_process(launch.command(command), said)
    wait_until(lambda: listening.search(said.read_text()) is not None, process, "sojourn", said)
    address = _address(listening, said)
    page = _METRICS.search(said.read_text())
    return Running(
        url=f"{scheme}://{address}",
        version=__version__,
        command=command,
        process=process,
        pids=[process.pid],
        metrics=(lambda: _metrics(page[1])) if page else dict,
    )


def _address(pattern: re.Pattern[str], said: Path) -> str:
    match = pattern.search(said.read_text())
    assert match is not None
    return match[1]


def _metrics(url: str) -> dict[str, float]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            text = response.read().decode()
    except OSError:
        # A server that has ended has no counters; its end is reported elsewhere.
        return {}
    return {sample["name"]: float(sample["value"]) for sample in _SAMPLE.finditer(text)}
