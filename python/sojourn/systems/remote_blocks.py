"""A block device of another machine, on which a server has a file system of its own.

The files become an ext4 image. `nbdkit` serves it at the other end of an emulated network link; `nbdfuse` makes it a
file here, which is mounted by a loop device. iSCSI or NVMe over fabrics would do the same with real machines.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sojourn.failure import CouldNotRun
from sojourn.systems.mounts import BLOCKS, Mount
from sojourn.systems.running import Running
from sojourn.systems.server import Launch
from sojourn.systems.storage import STORAGE_ADDRESS, answers, require_tools, start_storage, tool, without_files

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
    require_tools(TOOLS, "remote blocks")
    image = made(launch.root, work)
    folder = work / "mounted"
    folder.mkdir(exist_ok=True)
    url = f"nbd://{STORAGE_ADDRESS}:{PORT}"
    kit = [tool("nbdkit"), "--foreground", "--readonly", "--exit-with-parent", "--port", str(PORT), "file", str(image)]
    storage = start_storage(kit, url, _greets, link, launch, image.parent, name="nbdkit")
    mount = Mount(folder, BLOCKS, url)
    return storage.before(lambda: start(replace(without_files(launch), root=mount.files, mount=mount)))


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
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-b", str(BLOCK_BYTES), "-N", str(len(files) + 1024)]
    command = [tool("mke2fs"), *options, "-d", str(root), str(unfinished), f"{-(-size // 1024)}k"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CouldNotRun(f"no image of {root} could be made: {done.stderr.strip()}", "is the disk full?")
    unfinished.rename(image)
    return image


def _greets() -> bool:
    return answers(PORT, b"", lambda answer: answer.startswith(GREETING))
