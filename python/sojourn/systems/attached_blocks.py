"""A remote block device as a file system of a server's own: attached and mounted in the server's mount namespace.

The kernel removes the namespace with the server, and with it the mount, the loop device and `nbdfuse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ATTACH = """set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/device" "$0/files"
setpriv --pdeathsig KILL nbdfuse --readonly "$0/device/blocks" "$1" &
tries=0
until [ -s "$0/device/blocks" ]; do
  tries=$((tries + 1)); [ $tries -le 100 ] || { echo "the block device did not appear" >&2; exit 1; }
  sleep 0.05
done
mount -o loop,ro,noload "$0/device/blocks" "$0/files"
shift
exec "$@"
"""
"""In the server's mount namespace: attaches the device at a folder, mounts it, and becomes the server."""


@dataclass(frozen=True)
class AttachedBlocks:
    """A file system on a block device elsewhere, for one server."""

    folder: Path
    """An empty folder; in the server's mount namespace the device and the files are below it."""
    url: str
    """Of the device."""

    @property
    def files(self) -> Path:
        """The folder that the server serves."""
        return self.folder / "files"

    def command(self, command: list[str]) -> list[str]:
        """Wraps `command` so that it runs where the files are."""
        attach = ["sh", "-c", _ATTACH, str(self.folder), self.url, *command]
        return ["unshare", "--mount", "--propagation", "private", *attach]
