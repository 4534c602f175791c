"""File servers of another machine: NFS, HTTP and an object store, which our server asks, and SFTP, which is mounted.

Each is at the other end of an emulated network link. NFS is served by Ganesha, HTTP by our own server. That takes the
place of an object store, too: it answers signed requests, but does not check their signatures.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Template

from sojourn import engine
from sojourn.systems.mounts import SSHFS, Mount
from sojourn.systems.running import Running
from sojourn.systems.server import Launch
from sojourn.systems.storage import STORAGE_ADDRESS, answers, require_tools, start_storage, tool, without_files

HTTP_PORT = 8081
NFS_PORT = 2049
MOUNT_PORT = 20048
SFTP_PORT = 2222
MOVED = "moved"
"""The folder on the other machine for what is moved there."""
HELPERS = 16
"""Of the server that takes the place of an object store."""
CREDENTIALS = (
    "AWS_ACCESS_KEY_ID=AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_REGION=us-east-1",
    f"AWS_ENDPOINT_URL_S3=http://{STORAGE_ADDRESS}:{HTTP_PORT}",
)

NFS_PROGRAM = 100_003
MOUNT_PROGRAM = 100_005
NFS_TOOLS = {
    "ganesha.nfsd": "nfs-ganesha nfs-ganesha-vfs",
    "rpcbind": "rpcbind",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
SFTP_TOOLS = {
    "sshfs": "sshfs",
    "sftp-server": "openssh-sftp-server",
    "inetd": "openbsd-inetd",
    "mountpoint": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""The programs that are needed, and their Debian packages."""

_GANESHA = Template("""
NFS_CORE_PARAM {
    Protocols = 3; NFS_Port = $nfs; MNT_Port = $mount;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
}
NFSV4 { UseGetpwnam = true; Only_Numeric_Owners = true; RecoveryBackend = fs; RecoveryRoot = "$work"; }
EXPORT {
    Export_Id = 1; Path = "$root"; Pseudo = "/files"; Access_Type = RO; Squash = No_Root_Squash;
    SecType = sys; Protocols = 3; Transports = TCP; FSAL { Name = VFS; }
}
MDCACHE { Entries_HWMark = 5000; }
LOG { Default_Log_Level = EVENT; }
""")
"""One export, read-only. Files are not locked, so that the lock manager and its helpers are not needed. Ganesha keeps
few attributes of its own: its memory is limited, and the kernel has them, too.
"""
_IN_NAMESPACE = """
trap 'kill -KILL $child' TERM
setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc sh -c "$@" &
child=$!
wait $child
"""
"""Runs a script in a process namespace, so that all of its processes end with it: rpcbind changes its user, after which
it no longer hears of its parent's end, and an SFTP server does not hear of the end of the link.
"""
_NFS = """set -e
mount -t tmpfs tmpfs /run
mkdir /run/rpcbind
"$0" -f &
tries=0
until [ -S /run/rpcbind.sock ]; do
  tries=$((tries + 1)); [ $tries -le 100 ] || { echo "rpcbind did not listen" >&2; exit 1; }
  sleep 0.05
done
exec "$1" -F -f "$2" -L "$3" -p "$4"
"""
"""Ganesha asks a port mapper even if nobody else does: one with its files in a folder of its own."""


def with_nfs(launch: Launch, link: str, work: Path, start: Callable[[Launch], Running]) -> Running:
    """Starts a server by `start` that reads its files from an NFS server behind a link; see `with_remote_blocks`."""
    del work
    require_tools(NFS_TOOLS, "an NFS server")
    root = launch.root.resolve()
    folder = launch.work / "nfs"
    folder.mkdir(exist_ok=True)
    configuration = folder / "ganesha.conf"
    places = {"nfs": str(NFS_PORT), "mount": str(MOUNT_PORT), "work": str(folder), "root": str(root)}
    configuration.write_text(_GANESHA.substitute(places))
    files = [str(configuration), str(folder / "ganesha.log"), str(folder / "ganesha.pid")]
    program = _in_namespace(_NFS, [tool("rpcbind"), tool("ganesha.nfsd"), *files])
    url = f"nfs://{STORAGE_ADDRESS}{root}?nfsport={NFS_PORT}&mountport={MOUNT_PORT}&uid=0&gid=0"
    storage = start_storage(program, url, _nfs_answers, link, launch, root, name="ganesha.nfsd")
    return storage.before(lambda: start(replace(without_files(launch), content=url)))


def with_http(launch: Launch, link: str, work: Path, start: Callable[[Launch], Running]) -> Running:
    """The same with an HTTP server; a proxy has it as its upstream."""
    del work
    url = f"http://{STORAGE_ADDRESS}:{HTTP_PORT}"
    storage = _http_server(launch.root.resolve(), url, link, launch)
    return storage.before(lambda: start(replace(without_files(launch), content=f"{url}/", upstream=url)))


def with_s3(launch: Launch, link: str, work: Path, start: Callable[[Launch], Running]) -> Running:
    """The same with a server in the place of an object store, whose bucket is named like the folder."""
    del work
    root = launch.root.resolve()
    url = f"s3://{root.name}"
    storage = _http_server(root.parent, url, link, launch)
    return storage.before(lambda: start(replace(without_files(launch), content=url, environment=CREDENTIALS)))


def with_sshfs(
    launch: Launch, link: str, work: Path, start: Callable[[Launch], Running], *, everything: bool = False
) -> Running:
    """The same with an SFTP server whose files are mounted, so that any server can read them. Nothing is encrypted.

    With `everything` the server's configuration and its logs are there, too.
    """
    require_tools(SFTP_TOOLS, "a mounted SFTP server")
    root = launch.root.resolve()
    configuration = launch.work / "inetd.conf"
    configuration.write_text(f"{SFTP_PORT} stream tcp nowait root {tool('sftp-server')} sftp-server\n")
    program = _in_namespace('exec "$0" -i "$1"', [tool("inetd"), str(configuration)])
    source = f"{STORAGE_ADDRESS}:{root}:{SFTP_PORT}"
    folder = work / "mounted"
    folder.mkdir(exist_ok=True)
    url = f"sftp://{STORAGE_ADDRESS}:{SFTP_PORT}"
    storage = start_storage(program, url, _sftp_answers, link, launch, root, name="sftp-server")
    mount = Mount(folder, SSHFS, source)
    if everything:
        moved = launch.work / MOVED
        moved.mkdir(exist_ok=True)
        mount = replace(mount, moved=launch.work, moved_to=f"{STORAGE_ADDRESS}:{moved.resolve()}:{SFTP_PORT}")
    return storage.before(lambda: start(replace(without_files(launch), root=mount.files, mount=mount)))


def _in_namespace(script: str, words: list[str]) -> list[str]:
    return ["setpriv", "--pdeathsig", "TERM", "sh", "-c", _IN_NAMESPACE, "sh", script, *words]


def _http_server(folder: Path, url: str, link: str, launch: Launch) -> Running:
    require_tools({"setpriv": "util-linux"}, "an HTTP server behind a link")
    listen = ["--listen", f"0.0.0.0:{HTTP_PORT}", "--helpers", str(HELPERS)]
    program = ["setpriv", "--pdeathsig", "TERM", str(engine.path()), "serve", str(folder), *listen]
    root = launch.root.resolve()
    return start_storage(program, url, _http_answers, link, launch, root, name="an HTTP server")


def _http_answers() -> bool:
    return answers(HTTP_PORT, b"HEAD / HTTP/1.0\r\n\r\n", lambda answer: b"\r\nServer: Sojourn" in answer)


def _sftp_answers() -> bool:
    # SSH_FXP_INIT of version 3 is answered by SSH_FXP_VERSION.
    return answers(SFTP_PORT, struct.pack(">IBI", 5, 1, 3), lambda answer: answer[4:5] == b"\x02")


def _nfs_answers() -> bool:
    return _procedure_answers(NFS_PORT, NFS_PROGRAM) and _procedure_answers(MOUNT_PORT, MOUNT_PROGRAM)


def _procedure_answers(port: int, program: int) -> bool:
    """Whether a service of version 3 answers the procedure that does nothing (RFC 5531, 9 and 12.1)."""
    call = struct.pack(">10I", program, 0, 2, program, 3, 0, 0, 0, 0, 0)
    record = struct.pack(">I", 1 << 31 | len(call)) + call
    return answers(port, record, lambda answer: answer[4:16] == struct.pack(">3I", program, 1, 0))
