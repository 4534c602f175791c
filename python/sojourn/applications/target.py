"""Permission to load a target: private networks freely, others only with the owner's confirmation."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from sojourn.failure import CouldNotRun


def require_permission(url: str, *, owned: bool) -> None:
    """Refuses a target reached over the public network, unless its owner permits it.

    Args:
        url: what is to be loaded.
        owned: the person has said that it is theirs.

    Raises:
        CouldNotRun: it must not be loaded, or is no target.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CouldNotRun(f"{url!r} is no target", "give http://HOST[:PORT] or https://HOST[:PORT]")
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise CouldNotRun(f"{parts.hostname} has no address: {error}", "is its name spelled right?") from error
    addresses = {ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found}
    public = [each for each in addresses if not (each.is_private or each.is_loopback or each.is_link_local)]
    if public and not owned:
        raise CouldNotRun(
            f"{parts.hostname} is {public[0]}, which is not in a private network: a load to the knee may stop it",
            "give --i-own-this if it is yours to load; better assess a staging system",
        )
