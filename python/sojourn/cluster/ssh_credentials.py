"""Puts a cluster's TLS credentials on hosts, in a folder that only its owner reads, and removes them at the end."""

from __future__ import annotations

import asyncio
import posixpath
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sojourn.failure import CouldNotRun

T = TypeVar("T")

FOLDER = "/tmp"
"""Where each host has the folder; a name of 128 random bits below it."""
CONNECT_SECONDS_MAX = 20.0


@dataclass(frozen=True)
class Host:
    """A host, and the keywords of `asyncssh.connect` for it."""

    name: str
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, options: Mapping[str, Any]) -> Host:
        """Parses `[USER@]HOST`; the user overrides the one of the options."""
        user, at, name = text.rpartition("@")
        return cls(name, {**options, "username": user} if at else options)


@dataclass(frozen=True)
class Placed:
    """Credentials on all hosts."""

    security: Mapping[str, str]
    """Their paths as keywords of `distributed.Security`."""
    addresses: Sequence[str]
    """Each host's address as this machine reaches it; its name may be known here only."""


@contextmanager
def on_hosts(hosts: Sequence[Host], texts: Mapping[str, str]) -> Iterator[Placed]:
    """Writes the texts of `certificate` and `key` on all hosts.

    Args:
        hosts: the hosts.
        texts: the certificate, which is its own authority, and its key.

    Raises:
        CouldNotRun: a host cannot be reached or written to.
    """
    folder = posixpath.join(FOLDER, f"sojourn-{secrets.token_hex(16)}")
    names = {name: posixpath.join(folder, f"{name}.pem") for name in texts}
    try:
        found = asyncio.run(_on_each(hosts, lambda connection: _write(connection, folder, names, texts)))
        for host, each in zip(hosts, found, strict=True):
            if isinstance(each, BaseException):
                raise CouldNotRun(
                    f"{host.name} cannot be reached by ssh: {each or type(each).__name__}",
                    f"does `ssh {host.name}` work without a password?",
                ) from each
        roles = {
            f"tls_{role}_{kind}": names[text]
            for role in ("scheduler", "worker", "client")
            for kind, text in (("cert", "certificate"), ("key", "key"))
        }
        yield Placed({"tls_ca_file": names["certificate"], **roles}, [str(each) for each in found])
    finally:
        asyncio.run(_on_each(hosts, lambda connection: _remove(connection, folder, names)))


async def _on_each(hosts: Sequence[Host], act: Callable[[Any], Awaitable[T]]) -> list[T | BaseException]:
    return await asyncio.gather(*(_on(host, act) for host in hosts), return_exceptions=True)


async def _on(host: Host, act: Callable[[Any], Awaitable[T]]) -> T:
    import asyncssh

    async with asyncio.timeout(CONNECT_SECONDS_MAX), asyncssh.connect(host.name, **host.options) as connection:
        return await act(connection)


async def _write(connection: Any, folder: str, names: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Writes the files; returns the host's address."""
    import asyncssh

    address = str(connection.get_extra_info("peername")[0])
    async with connection.start_sftp_client() as files:
        try:
            await files.mkdir(folder, asyncssh.SFTPAttrs(permissions=0o700))
        except asyncssh.SFTPError:
            # Nobody can guess the name: it is ours, on a disk that two of the hosts share.
            if await files.isdir(folder):
                return address
            raise
        new = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        for name, text in texts.items():
            async with files.open(names[name], new, asyncssh.SFTPAttrs(permissions=0o600)) as file:
                await file.write(text)
    return address


async def _remove(connection: Any, folder: str, names: Mapping[str, str]) -> None:
    import asyncssh

    async with connection.start_sftp_client() as files:
        for name in names.values():
            with suppress(asyncssh.SFTPError):
                await files.remove(name)
        await files.rmdir(folder)
