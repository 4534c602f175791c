"""Remote file systems for one server: mounted in a mount namespace of its own.

The kernel removes the namespace with the server, and with it the mounts, the loop device and the processes that serve
them, however the server ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BLOCKS = """
mkdir "$0/device"
setpriv --pdeathsig KILL nbdfuse --readonly "$0/device/blocks" "$1" &
appears() { [ -s "$0/device/blocks" ]; }
wait_until_it appears
mount -o loop,ro,noload "$0/device/blocks" "$0/files"
"""
"""Attaches the block device `$1` and mounts its file system at `$0/files`. It is not written to: what the kernel still
has to write when the server is killed would wait for `nbdfuse`, which is killed, too.
"""
SSHFS = """
mount_sshfs() {
  options="directport=${1##*:},allow_other,default_permissions,max_conns=4,$3"
  setpriv --pdeathsig KILL sshfs -f -o "$options" "${1%:*}" "$2" &
  appears() { mountpoint -q "$1"; }
  wait_until_it appears "$2"
}
mount_sshfs "$1" "$0/files" ro,kernel_cache
if [ -n "$2" ]; then
  mkdir "$0/moved"
  mount_sshfs "$3" "$0/moved" rw
  for each in "$2"/*; do [ "$each" = "$2/moved" ] || cp -a "$each" "$0/moved"; done
  mount --bind "$0/moved" "$2"
fi
"""
"""Mounts the folder `$1`, which is HOST:FOLDER:PORT, at `$0/files`; if there is a `$2`, moves that folder to `$3`."""

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
shift 3
exec "$@"
"""


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
    """A folder that is elsewhere, too, but under its own name: of the server's configuration and logs."""
    moved_to: str = ""
    """Where it is, as the script wants it."""

    @property
    def files(self) -> Path:
        """The folder that the server serves."""
        return self.folder / "files"

    def command(self, command: list[str]) -> list[str]:
        """Wraps `command` so that it runs where the files are."""
        script = _MOUNT + self.script + _BECOME_SERVER
        moved = "" if self.moved is None else str(self.moved)
        mounted = ["sh", "-c", script, str(self.folder), self.source, moved, self.moved_to, *command]
        return ["unshare", "--mount", "--propagation", "private", *mounted]
