"""A server whose files are on a block device of another machine, while the file system is its own.

The files become an ext4 image. `nbdkit` serves it at the other end of an emulated network link; `nbdfuse` makes it a
file here, which is mounted by a loop device. iSCSI or NVMe over fabrics would do the same with real machines. Mount,
loop device and `nbdfuse` live in a mount namespace of the server's own, so the kernel removes them with the server,
however it ends.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.machine import cores
from sojourn.systems.attached_blocks import AttachedBlocks
from sojourn.systems.running import Running, start_process, wait_until
from sojourn.systems.server import Launch

NETWORK = "10.78.0.0/16"
"""The link's network; that of the clients is another."""
STORAGE_ADDRESS = "10.78.0.2"
"""The first address at its other end."""
PORT = 10809
GREETING = b"NBDMAGIC"
"""What an NBD server begins with."""
BLOCK_BYTES = 4096
SPARE_SHARE = 1.1
SPARE_BYTES = 16 << 20
"""Room for the tables of the file system."""
TOOLS = {
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "mke2fs": "e2fsprogs",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""The programs that are needed, and their Debian packages."""


def with_remote_blocks(launch: Launch, link: str, work: Path, start: Callable[[Launch], Running]) -> Running:
    """Starts a server by `start` with its files on a block device behind a link with these options.

    Args:
        launch: how the server would be started with the files here.
        link: options of `sojourn link`.
        work: a folder that keeps images between starts.
        start: starts it.

    Raises:
        CouldNotRun: a program is missing, this is not root, or something did not start.
    """
    _check_tools()
    image = made(launch.root, work)
    folder = launch.work / "blocks"
    folder.mkdir(exist_ok=True)
    storage = _serve(image, link, launch)
    try:
        blocks = AttachedBlocks(folder, f"nbd://{STORAGE_ADDRESS}:{PORT}")
        # The pages to drop are those of the image, which the other machine would hold.
        confinement = launch.confinement and replace(launch.confinement, site=image.parent)
        server = start(replace(launch, root=blocks.files, blocks=blocks, confinement=confinement))
    except BaseException:
        storage.stop()
        raise
    storage.behind, server.behind = server.behind, storage
    return server


def made(root: Path, work: Path) -> Path:
    """The image of the files below `root`, made once.

    Raises:
        CouldNotRun: it cannot be made.
    """
    folder = work / f"blocks-{root.name}"
    image = folder / "image"
    if image.is_file():
        return image
    folder.mkdir(parents=True, exist_ok=True)
    files = [path for path in root.rglob("*") if not path.is_symlink()]
    used = sum(-(-path.stat().st_size // BLOCK_BYTES) * BLOCK_BYTES for path in files)
    size = int(used * SPARE_SHARE) + SPARE_BYTES
    unfinished = folder / "unfinished"
    unfinished.unlink(missing_ok=True)
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-b", str(BLOCK_BYTES), "-N", str(len(files) + 64)]
    command = [_tool("mke2fs"), *options, "-d", str(root), str(unfinished), f"{-(-size // 1024)}k"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CouldNotRun(f"no image of {root} could be made: {done.stderr.strip()}", "is the disk full?")
    unfinished.rename(image)
    return image


def _serve(image: Path, link: str, launch: Launch) -> Running:
    said = launch.work / "blocks.log"
    kit = [_tool("nbdkit"), "--foreground", "--readonly", "--exit-with-parent", "--port", str(PORT), "file", str(image)]
    words = [str(engine.path()), "link", "--network", NETWORK, *shlex.split(link), "--", *kit]
    process = start_process(cores.pinned_command(launch.upstream_core, words), said)
    wait_until(_greets, process, "nbdkit behind a link", said)
    return Running(f"nbd://{STORAGE_ADDRESS}:{PORT}", "", words, process, [process.pid])


def _greets() -> bool:
    # Before the link is up the address is anyone's, so an accepted connection says nothing.
    try:
        with socket.create_connection((STORAGE_ADDRESS, PORT), timeout=1) as connection:
            return connection.recv(len(GREETING)) == GREETING
    except OSError:
        return False


def _check_tools() -> None:
    if os.geteuid() != 0:
        raise CouldNotRun("only root can mount a block device", "run it as root")
    if absent := [name for name in TOOLS if _found(name) is None]:
        packages = " ".join(sorted({TOOLS[name] for name in absent}))
        raise CouldNotRun(f"{', '.join(absent)} missing for remote blocks", f"apt-get install {packages}")


def _tool(name: str) -> str:
    return _found(name) or name


def _found(name: str) -> str | None:
    """The path of a program; ordinary users have no /usr/sbin in their PATH."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))
