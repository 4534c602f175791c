"""Apache Traffic Server: one process with threads, one of which serves connections.

It looks for its files where its package puts them, unless a run root names other folders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.systems.caching_proxy import CachingProxy

FOLDERS = ("sysconfdir", "localstatedir", "runtimedir", "logdir", "cachedir")
"""Folders in the work folder; programs and modules stay where they are installed."""
ALLOWED = "ip_allow: [{apply: in, ip_addrs: 127.0.0.1, action: allow, methods: ALL}]\n"
"""Without this file, it answers no request."""


@dataclass(frozen=True)
class TrafficServer(CachingProxy):
    """Several files: the run root with the folders, the records (the template), and the remap rules."""

    def _configure(self, values: dict[str, str]) -> None:
        super()._configure(values)
        work = Path(values["work"])
        for name in FOLDERS:
            (work / name).mkdir(exist_ok=True)
        (work / "runroot.yml").write_text("".join(f"{name}: {work / name}\n" for name in FOLDERS))
        settings = work / "sysconfdir"
        (settings / "remap.config").write_text(f"map / http://{values['upstream_host']}:{values['upstream_port']}/\n")
        (settings / "ip_allow.yaml").write_text(ALLOWED)
        # The storage behind the memory cache, which is required even if everything fits into memory.
        (settings / "storage.config").write_text(f"{work / 'cachedir'} {values['memory_bytes']}\n")
        Path(values["configuration"]).replace(settings / "records.config")


TRAFFIC_SERVER = TrafficServer(
    name="trafficserver",
    package="trafficserver",
    program="traffic_server",
    arguments=("--run-root=$work",),
    version_option="--version",
    access_log_off="",
    access_log_on="",
)
