"""Makes test films of a given bit rate: ffmpeg encodes one, ffprobe measures it, and copies follow.

The copies are identical but separate files: each occupies its own part of the page cache, like films requested by
different viewers. To the kernel, hard links would be a single file.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sojourn.failure import CouldNotRun
from sojourn.workload import fileset, site

RATE_MIN, RATE_MAX = 24_000, 100_000_000
"""The range of bit rates: below, nothing is left for the picture; above, H.264 encoders stop at this size."""
SECONDS_MAX = 2 * 3600
COPIES_MAX = 1_000_000
RATE_TOLERANCE = 0.1
"""A larger relative deviation of the film's rate causes a warning."""
COPY_BYTES = 1 << 20

PROGRAMS = ("ffmpeg", "ffprobe")
CODECS = {"h264": "libx264", "h265": "libx265"}


@dataclass(frozen=True)
class Picture:
    """The picture and sound parameters for a range of rates."""

    width: int
    height: int
    pictures_per_second: int
    audio_bits_per_second: int
    sample_rate: int


PICTURES = (
    (100_000, Picture(176, 144, 10, 16_000, 22_050)),
    (1_000_000, Picture(320, 240, 15, 48_000, 44_100)),
    (4_000_000, Picture(640, 360, 25, 96_000, 48_000)),
    (RATE_MAX, Picture(1280, 720, 25, 128_000, 48_000)),
)
"""Parameters by the highest rate for which they apply."""
KEYFRAME_SECONDS = 2
"""The distance of keyframes, at which viewers can start and HLS can cut."""


@dataclass(frozen=True)
class Film:
    bits_per_second: int
    seconds: float
    codec: str = "h264"

    def check(self) -> None:
        """Refuses a rate or length outside the limits."""
        limits = (
            ("--rate", self.bits_per_second, RATE_MIN, RATE_MAX, "bit/s"),
            ("--seconds", self.seconds, 1, SECONDS_MAX, "s"),
        )
        for name, value, least, most, unit in limits:
            if not least <= value <= most:
                raise CouldNotRun(f"{name} {value:g} is not allowed", f"give a value from {least:,} to {most:,} {unit}")

    @property
    def name(self) -> str:
        """The base name of its files, before the copy's number."""
        return f"{self.codec}-{self.bits_per_second // 1000}k-{self.seconds:g}s"


@dataclass(frozen=True)
class Measured:
    """The sizes and durations that ffprobe counts in a film: samples only, without the container."""

    video_bits_per_second: float
    audio_bits_per_second: float
    seconds: float
    pictures: int
    keyframes: int
    bytes: int

    @property
    def bits_per_second(self) -> float:
        """The bit rate of picture and sound together."""
        return self.video_bits_per_second + self.audio_bits_per_second


def bits_per_second(text: str) -> int:
    """Parses a film's bit rate: `56k`, `2M`, `1.5M`, optionally with `bit/s`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kM])(?:bit/s)?", text.strip())
    if match is None:
        raise CouldNotRun(f"{text!r} is not the rate of a film", "write it as in 56k, 300k or 2M, in bits a second")
    return round(float(match[1]) * {"k": 1e3, "M": 1e6}[match[2]])


def make(
    film: Film,
    folder: Path,
    copies: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Measured, fileset.FileSet, int]:
    """Makes `copies` copies of `film` in `folder`; returns its measurements, the files, and how many were written.

    Existing files are kept, so that an interrupted run can be resumed. The manifest is written last: a folder with one
    is complete.
    """
    film.check()
    if not 1 <= copies <= COPIES_MAX:
        raise CouldNotRun(f"--copies {copies} is not allowed", f"give a number from 1 to {COPIES_MAX:,}")
    _check_programs()
    try:
        return _make(film, folder, copies, progress)
    except OSError as error:
        raise CouldNotRun(f"cannot write {error.filename or folder}: {error.strerror}") from error


def _make(
    film: Film, folder: Path, copies: int, progress: Callable[[int, int], None]
) -> tuple[Measured, fileset.FileSet, int]:
    paths = [f"/{film.name}-{number:04d}.mp4" for number in range(copies)]
    first = folder / paths[0].lstrip("/")
    manifest = folder / fileset.MANIFEST
    if manifest.is_file() and not first.is_file():
        raise CouldNotRun(f"{folder} holds another file set", "give another --output, or remove it first")
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    if not first.is_file():
        # Written under another name until it is complete.
        partial = first.with_suffix(".partial.mp4")
        _encode(film, partial)
        partial.replace(first)
        written = 1
    progress(1, copies)
    measured = measure(first)
    missing = [path for path in paths[1:] if not _is_copy(folder / path.lstrip("/"), measured.bytes)]
    site.check_room(folder, [(path, measured.bytes) for path in missing])
    for path in missing:
        _copy(first, folder / path.lstrip("/"))
        written += 1
        progress(1 + written, copies)
    files = [fileset.File(path, measured.bytes, "film", 1) for path in paths]
    film_set = fileset.FileSet("media", files, {**asdict(film), "measured": asdict(measured)})
    fileset.write_lists(film_set, folder)
    return measured, film_set, written


def measure(path: Path) -> Measured:
    """Measures the film at `path`, packet by packet."""
    entries = "stream=index,codec_type:packet=stream_index,size,flags,pts_time,duration_time"
    command = ["ffprobe", "-v", "error", "-show_entries", entries, "-of", "json", str(path)]
    # Any: another program's JSON, whose keys depend on its version.
    probed: dict[str, Any] = json.loads(_run(command))
    kinds = {stream["index"]: stream["codec_type"] for stream in probed["streams"]}
    bits = {"video": 0, "audio": 0}
    end, pictures, keyframes = 0.0, 0, 0
    for packet in probed["packets"]:
        kind = kinds[packet["stream_index"]]
        bits[kind] += 8 * int(packet["size"])
        end = max(end, float(packet["pts_time"]) + float(packet.get("duration_time", 0)))
        if kind == "video":
            pictures += 1
            keyframes += "K" in packet["flags"]
    if not end:
        raise CouldNotRun(f"ffprobe found no packets in {path}", "remove the file and make it again")
    return Measured(bits["video"] / end, bits["audio"] / end, end, pictures, keyframes, path.stat().st_size)


def _check_programs() -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise CouldNotRun(f"{' and '.join(missing)} not found", "install the package ffmpeg")


def _encode(film: Film, path: Path) -> None:
    picture = next(picture for most, picture in PICTURES if film.bits_per_second <= most)
    # At low rates, the sound gets at most a third.
    audio = min(picture.audio_bits_per_second, film.bits_per_second // 3)
    video = film.bits_per_second - audio
    per_second, keyframes = picture.pictures_per_second, KEYFRAME_SECONDS * picture.pictures_per_second
    source = f"mandelbrot=size={picture.width}x{picture.height}:rate={per_second}"
    sound = f"sine=frequency=440:sample_rate={picture.sample_rate}"
    rates = [option for name in ("-b:v", "-minrate", "-maxrate", "-bufsize") for option in (name, str(video))]
    # Filler keeps the rate constant even for simple pictures; players ignore it.
    held = f"keyint={keyframes}:min-keyint={keyframes}:scenecut=0"
    if film.codec == "h264":
        coding = ["-profile:v", "baseline", "-x264-params", f"nal-hrd=cbr:force-cfr=1:{held}"]
    else:
        coding = ["-tag:v", "hvc1", "-x265-params", f"strict-cbr=1:log-level=error:{held}"]
    command = [
        *("ffmpeg", "-nostdin", "-v", "error", "-y"),
        *("-f", "lavfi", "-i", source, "-f", "lavfi", "-i", sound, "-t", f"{film.seconds:g}"),
        *("-c:v", CODECS[film.codec], "-preset", "veryfast", "-pix_fmt", "yuv420p", *rates, *coding),
        *("-c:a", "aac", "-b:a", str(audio), "-ac", "1"),
        # Reproducible output: no date, no encoder name.
        *("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-movflags", "+faststart"),
        str(path),
    ]
    try:
        _run(command)
    except CouldNotRun:
        path.unlink(missing_ok=True)
        raise


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise CouldNotRun(f"{command[0]} failed: {last}", f"try it yourself: {' '.join(command)}")
    return done.stdout


def _is_copy(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size and path.stat().st_nlink == 1


def _copy(source: Path, target: Path) -> None:
    """Copies the bytes without sharing blocks, replacing an existing file."""
    target.unlink(missing_ok=True)
    with source.open("rb") as reader, target.open("xb") as writer:
        while block := reader.read(COPY_BYTES):
            writer.write(block)
