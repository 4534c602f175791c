"""What tests of `sojourn stream` share: the installed server at work, short films, and a player."""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conftest import SOJOURN

SECONDS = 5
PICTURES_PER_SECOND = 10
TIMEOUT_SECONDS = 60.0


@dataclass
class Streaming:
    """A running server."""

    address: str
    admin: str
    datagram_port: int
    process: subprocess.Popen[str]

    def url(self, name: str) -> str:
        return f"rtsp://{self.address}/{name}"

    def counters(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://{self.admin}/metrics.json", timeout=10) as page:
            return json.loads(page.read())

    def wait_for(self, counter: str, least: float, most: float = math.inf) -> None:
        """Waits until a counter has reached a value; it is published now and then."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not least <= self.counters()[counter] <= most:
            assert time.monotonic() < deadline, (counter, self.counters())
            time.sleep(0.1)


@contextlib.contextmanager
def streaming(root: Path, *options: str, listen: str = "127.0.0.1:0") -> Iterator[Streaming]:
    command = [str(SOJOURN), "stream", str(root), "--listen", listen, "--admin-listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        addresses: dict[str, str] = {}
        while not {"listening on", "metrics on"} <= addresses.keys():
            line = process.stderr.readline()
            assert line, "the server ended before it listened"
            if found := re.match(r"(sending datagrams from) UDP ports (\d+)", line):
                addresses[found[1]] = found[2]
            if found := re.match(r"(listening on|metrics on) (?:http://)?([0-9.:\[\]]+)", line):
                addresses[found[1]] = found[2]
        try:
            datagrams = int(addresses["sending datagrams from"])
            yield Streaming(addresses["listening on"], addresses["metrics on"], datagrams, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_SECONDS)


def make_short_film(path: Path, codec: str = "libx264", *options: str) -> None:
    """A film with pictures that are decoded in another order than they are shown, and with sound."""
    pictures = f"testsrc2=size=176x144:rate={PICTURES_PER_SECOND}"
    make = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", pictures, "-f", "lavfi", "-i", "sine=sample_rate=22050"]
    make += ["-t", str(SECONDS), "-c:v", codec, "-pix_fmt", "yuv420p", "-g", "10", "-bf", "2", "-threads", "1"]
    subprocess.run([*make, *options, "-c:a", "aac", "-b:a", "32k", str(path)], check=True)


def make_large_film(path: Path) -> None:
    """A film of 12 Mbit/s, without sound."""
    rate = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", "10", "-b:v", "12M", "-preset", "ultrafast"]
    noise = f"nullsrc=size=320x240:rate={PICTURES_PER_SECOND},geq=random(1)*255:128:128"
    make = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", noise, "-t", str(SECONDS)]
    subprocess.run([*make, *rate, str(path)], check=True)


def decoder(source: str, *options: str) -> subprocess.Popen[str]:
    """Decodes the pictures of a source; what it prints has a hash of each."""
    command = ["ffmpeg", "-nostdin", "-v", "error", *options, "-copyts", "-i", source, "-map", "0:v"]
    command += ["-fps_mode", "passthrough", "-f", "framemd5", "-"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def hashes(decoding: subprocess.Popen[str]) -> list[str]:
    output, errors = decoding.communicate(timeout=TIMEOUT_SECONDS)
    assert decoding.returncode == 0, errors
    assert not errors, errors
    return [line.rsplit(",", 1)[1].strip() for line in output.splitlines() if not line.startswith("#")]
