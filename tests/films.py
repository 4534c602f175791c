"""What tests of films share: the programs that make and play them, and a film."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import SOJOURN, run

needs_ffmpeg = pytest.mark.skipif(
    shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None, reason="no ffmpeg in PATH (scripts/peers)"
)


def make_film(folder: Path, *options: str) -> Path:
    """A film of 14 seconds, made by the installed command."""
    done = run("media", "--output", folder, "--rate", "56k", "--seconds", "14", *options)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*-0000.mp4"))


def decoded(source: str | Path, stream: str) -> list[str]:
    """The hashes of all pictures (`v`) or sounds (`a`) of a film, which must decode without a word."""
    command = ["ffmpeg", "-nostdin", "-v", "warning", "-i", str(source), "-map", f"0:{stream}", "-f", "framemd5", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [line.rsplit(",", 1)[1].strip() for line in done.stdout.splitlines() if not line.startswith("#")]


@contextmanager
def serving(root: Path, *options: str) -> Iterator[str]:
    """The installed server over `root`; yields its address."""
    command = [str(SOJOURN), "serve", str(root), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert line.startswith("listening on "), line
            yield line.split()[2]
        finally:
            process.terminate()
            process.wait(20)
