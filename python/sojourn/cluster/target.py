"""Targets of `--cluster`: local processes, hosts for ssh, a running scheduler, or a file that describes a cluster."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from sojourn.failure import CouldNotRun
from sojourn.text import toml

FORMS = "--cluster local:N, ssh:HOST1,HOST2, tls://HOST:PORT or a file (docs/scale.md)"
PROCESSES_MAX = 1024
HOSTS_MAX = 1024
_SCHEDULER = re.compile(r"(?P<protocol>tls|tcp)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]]+):(?P<port>[0-9]{1,5})/?")
_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]%][A-Za-z0-9_.@:\[\]%-]*")


@dataclass(frozen=True)
class LocalProcesses:
    """Worker processes on this machine, with a thread each."""

    processes: int

    def __str__(self) -> str:
        return f"local:{self.processes}"


@dataclass(frozen=True)
class SshHosts:
    """A worker on each host, started by ssh; the scheduler runs on the first."""

    hosts: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    """Keywords of `distributed.SSHCluster`, from a file."""

    def __str__(self) -> str:
        return f"ssh:{','.join(self.hosts)}"


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that is already running."""

    address: str

    def __str__(self) -> str:
        return self.address


@dataclass(frozen=True)
class Managed:
    """A cluster that a batch system or Kubernetes starts, as its class in `MANAGERS` does."""

    manager: str
    workers: int
    options: Mapping[str, object]

    def __str__(self) -> str:
        return f"{self.manager}, {self.workers} workers"


Target: TypeAlias = LocalProcesses | SshHosts | Scheduler | Managed

MANAGERS = {
    "slurm": ("dask_jobqueue", "SLURMCluster"),
    "pbs": ("dask_jobqueue", "PBSCluster"),
    "sge": ("dask_jobqueue", "SGECluster"),
    "lsf": ("dask_jobqueue", "LSFCluster"),
    "htcondor": ("dask_jobqueue", "HTCondorCluster"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster"),
}
"""The module and the class of each kind of cluster that a file can name."""
_KEYS = {"kind", "workers", "hosts", "processes", "address", "options"}


def parse(text: str, *, insecure: bool = False) -> Target:
    """Parses `--cluster`.

    Args:
        text: as typed.
        insecure: whether a scheduler without authentication is accepted beyond this machine.

    Raises:
        CouldNotRun: it names no cluster, or one that anybody on the network could command.
    """
    kind, colon, rest = text.partition(":")
    if kind == "local" and colon:
        if not rest.isdecimal() or not 1 <= int(rest) <= PROCESSES_MAX:
            raise CouldNotRun(f"--cluster {text}: {rest!r} is not a number of processes", f"1 to {PROCESSES_MAX}")
        return LocalProcesses(int(rest))
    if kind == "ssh" and colon and not rest.startswith("//"):
        return _of_hosts([host.strip() for host in rest.split(",")], {})
    if "://" in text:
        return _scheduler(text, insecure=insecure)
    if Path(text).is_file():
        return _described(Path(text), insecure=insecure)
    raise CouldNotRun(f"--cluster {text}: there is no such cluster, and no such file", FORMS)


def _of_hosts(hosts: list[str], options: Mapping[str, object]) -> SshHosts:
    if not 1 <= len(hosts) <= HOSTS_MAX:
        raise CouldNotRun(f"--cluster names {len(hosts)} hosts", f"1 to {HOSTS_MAX}")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise CouldNotRun(f"--cluster: {host!r} is not a host", "write it as in ssh:load1,user@load2")
    return SshHosts(tuple(hosts), options)


def _scheduler(address: str, *, insecure: bool) -> Scheduler:
    parts = _SCHEDULER.fullmatch(address)
    if parts is None or int(parts["port"]) > 65535:
        raise CouldNotRun(f"--cluster {address} is not a scheduler's address", "write it as in tls://scheduler:8786")
    if parts["protocol"] == "tcp" and not insecure and not is_loopback(parts["host"]):
        raise CouldNotRun(
            f"{address} has no authentication: whoever reaches the scheduler runs programs on every worker",
            "start it with TLS (docs/scale.md) and write tls://; on a network of your own, say --insecure-cluster",
        )
    return Scheduler(address.rstrip("/"))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _described(path: Path, *, insecure: bool) -> Target:
    """Reads a file: `kind`, then what that kind needs, and `[options]` for the class that starts it."""
    try:
        content = tomllib.loads(toml.read_text(path, FORMS))
    except tomllib.TOMLDecodeError as error:
        raise CouldNotRun(f"{path}: {error}", "write it as TOML, as in docs/scale.md") from None
    if unknown := sorted(set(content) - _KEYS):
        raise CouldNotRun(f"{path}: there is no key {unknown[0]!r}", f"known: {', '.join(sorted(_KEYS))}")
    kind, options = content.get("kind"), content.get("options", {})
    if not isinstance(options, dict):
        raise CouldNotRun(f"{path}: options is not a table", "write [options], then KEY = VALUE")
    match kind:
        case "local":
            return parse(f"local:{content.get('processes', '')}")
        case "ssh":
            hosts = content.get("hosts")
            if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
                raise CouldNotRun(f"{path}: a cluster by ssh needs hosts", 'hosts = ["load1", "load2"]')
            return _of_hosts(hosts, options)
        case "scheduler":
            return _scheduler(str(content.get("address", "")), insecure=insecure)
        case str() if kind in MANAGERS:
            workers = content.get("workers")
            if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= HOSTS_MAX:
                raise CouldNotRun(f"{path}: workers is not a number from 1 to {HOSTS_MAX}", "workers = 16")
            if kind == "kubernetes" and not insecure:
                raise CouldNotRun(
                    f"{path}: pods of the Kubernetes operator accept work without authentication",
                    "close their port to other pods with a NetworkPolicy, and say --insecure-cluster",
                )
            return Managed(kind, workers, options)
        case _:
            kinds = ", ".join(["local", "ssh", "scheduler", *MANAGERS])
            raise CouldNotRun(f"{path}: {kind!r} is not a kind of cluster", f'kind = "…": {kinds}')
