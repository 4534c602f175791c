"""Remote file systems for one server: mounted in a mount namespace of its own.

The kernel removes the namespace with the server, and with it the mounts, the loop device and the processes that serve
them, however the server ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BLOCKS = """
readonly=--readonly options=loop,ro,noload
[ -z "$2" ] || readonly= options=loop
mkdir "$0/device"
setpriv --pdeathsig KILL nbdfuse $readonly "$0/device/blocks" "$1" &
appears() { [ -s "$0/device/blocks" ]; }
wait_until_it appears
mount -o $options "$0/device/blocks" "$0/files"
"""
"""Attaches the block device `$1` and mounts its file system at `$0/files`; writable if there is a `$2`."""
SSHFS = """
options=ro,directport=${1##*:},kernel_cache,allow_other,default_permissions,max_conns=4
setpriv --pdeathsig KILL sshfs -f -o $options "${1%:*}" "$0/files" &
appears() { mountpoint -q "$0/files"; }
wait_until_it appears
"""
"""Mounts the folder `$1`, which is HOST:FOLDER:PORT, at `$0/files`."""

_MOUNT = """set -e
wait_until_it() {
  tries=0
  until "$@"; do
    tries=$((tries + 1)); [ $tries -le 100 ] || { echo "the remote file system did not appear" >&2; exit 1; }
    sleep 0.05
  done
}
mount -t tmpfs tmpfs "$0"
mkdir "$0/files"
"""
_BECOME_SERVER = """
if [ -n "$2" ]; then
  cp -a "$2" "$0/files/.server"
  mount --bind "$0/files/.server" "$2"
fi
shift 2
exec "$@"
"""
"""Moves the folder `$2` to the remote file system, if there is one, and becomes the server."""


@dataclass(frozen=True)
class Mount:
    """A remote file system for one server."""

    folder: Path
    """An empty folder; in the server's mount namespace the files are below it."""
    script: str
    """The shell commands that mount it: `BLOCKS` or `SSHFS`."""
    source: str
    """The device or folder, as the script wants it."""
    moved: Path | None = None
    """A folder that is on the remote file system, too, under its own name: the server's configuration and logs."""

    @property
    def files(self) -> Path:
        """The folder that the server serves."""
        return self.folder / "files"

    def command(self, command: list[str]) -> list[str]:
        """Wraps `command` so that it runs where the files are."""
        script = _MOUNT + self.script + _BECOME_SERVER
        moved = "" if self.moved is None else str(self.moved)
        mounted = ["sh", "-c", script, str(self.folder), self.source, moved, *command]
        return ["unshare", "--mount", "--propagation", "private", *mounted]
