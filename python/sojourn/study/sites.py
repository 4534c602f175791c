"""The files of a point's server, written once for all points with the same files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.planning.web99.file_set import LARGEST_CLASS, SIZES_KILOBYTES
from sojourn.study.declarations import FileEntry, Films
from sojourn.study.logs import EXAMPLE, trace_file
from sojourn.study.points import Settings, filled
from sojourn.text import quantity
from sojourn.workload import fileset, media
from sojourn.workload.fileset import File, FileSet

SITE_BYTES_MAX = 8 << 30
LOG = "log"
"""The name of the set with a log's documents and their popularity."""
LOG_NORMAL_SIGMA = 1.573
"""The standard deviation of log document sizes at a provider's proxy, from the thesis."""
CLASS3_BYTES = tuple(int(size * 1024) for size in SIZES_KILOBYTES[LARGEST_CLASS])
"""The nine sizes of SPECweb99's largest class."""
_NAMED = re.compile(r"(webstone|log-normal)(?: at (\S+))?")
_WEB99 = re.compile(r"web99 for (\d+) connections?")
_EACH_ONCE = re.compile(r"(\d+) files? of (class 3|\S+)")


def site(files: str | Sequence[FileEntry], settings: Settings, work: Path, log: str = EXAMPLE) -> Path:
    """The folder of a cell's files below `work`; `log` is the access log behind the set "log".

    Raises:
        CouldNotRun: the files are impossible, or cannot be written.
    """
    if files == LOG:
        made = fileset.from_trace(_native.StoredTrace.open(str(trace_file(log, work))), log)
    else:
        made = _named(filled(files, settings)) if isinstance(files, str) else _listed(files, settings)
    # A thousand files would make too long a name.
    known = "-".join(f"{file.path}:{file.bytes}x{file.weight:g}" for file in made.files)
    root = work / f"site-{hashlib.sha256(known.encode()).hexdigest()[:16]}"
    fileset.write(made, root, SITE_BYTES_MAX)
    return root


def films(declared: Films, settings: Settings, work: Path) -> Path:
    """The folder of a cell's films below `work`; the list beside it names them for viewers.

    Raises:
        CouldNotRun: ffmpeg is missing, or the films are impossible.
    """
    film = media.Film(media.bits_per_second(filled(declared.rate, settings)), declared.seconds)
    number = filled(str(declared.number), settings)
    if not number.isdecimal():
        raise CouldNotRun(f"{number!r} is not a number of films", "write a number, or the name of a factor that is one")
    root = work / f"films-{film.name}-{number}"
    if not (root / fileset.MANIFEST).is_file():
        _, made, _ = media.make(film, root, int(number))
        films_list(root).write_text("".join(f"{file.path}\n" for file in made.files))
    return root


def texts_of(declared: str | Sequence[FileEntry] | Films | None) -> list[str]:
    """The texts of files or films that may name factors."""
    if isinstance(declared, Films):
        return [declared.rate, str(declared.number)]
    if declared is None or isinstance(declared, str):
        return [declared] if declared else []
    return [text for each in declared for text in (each.path, each.size, str(each.weight))]


def films_list(root: Path) -> Path:
    """Writes the list of a folder's films, a path per line."""
    return root.with_name(f"{root.name}.list")


def _named(text: str) -> FileSet:
    if (counted := _EACH_ONCE.fullmatch(text)) is not None:
        kinds = CLASS3_BYTES if counted[2] == "class 3" else (quantity.size_bytes(counted[2]),)
        sizes = [kinds[place % len(kinds)] for place in range(int(counted[1]))]
        # A proxy under test does not cache files with this name: each is fetched.
        return FileSet("each", [File(f"/{place:04d}.uncached", size, "each", 1) for place, size in enumerate(sizes)])
    if (connections := _WEB99.fullmatch(text)) is not None:
        return fileset.web99(int(connections[1]))
    match = _NAMED.fullmatch(text)
    if match is None:
        sets = "webstone, webstone at 9.5kB, log-normal at 9.5kB, 99 files of 50kB, 99 files of class 3"
        raise CouldNotRun(f"{text!r} is not a file set", f"write {sets}, web99 for 99 connections, or log")
    mean = None if match[2] is None else quantity.size_bytes(match[2])
    if match[1] == "webstone":
        return fileset.webstone() if mean is None else fileset.with_mean(fileset.webstone(), mean)
    if mean is None:
        raise CouldNotRun(f"{text!r} has no mean", "write log-normal at 9.5kB")
    return fileset.lognormal_quantiles(mean, LOG_NORMAL_SIGMA)


def _listed(files: Sequence[FileEntry], settings: Settings) -> FileSet:
    rows = [
        File(
            filled(each.path, settings),
            _size(filled(each.size, settings)),
            "study",
            _weight(filled(str(each.weight), settings)),
        )
        for each in files
    ]
    return FileSet("study", rows)


def _size(text: str) -> int:
    """Parses a size, or a difference of two such as `10KiB - 1B`, for a file in its own size class."""
    first, _, second = text.partition(" - ")
    size = quantity.size_bytes(first) - (quantity.size_bytes(second) if second else 0)
    if size < 0:
        raise CouldNotRun(f"the size {text!r} of a file is below 0", "give a factor that stays within")
    return size


def _weight(text: str) -> float:
    """Parses a number, or a difference of two such as `1000 - 300`, for the remaining weight of a file."""
    first, _, second = text.partition("-")
    try:
        weight = float(first) - float(second or 0)
    except ValueError:
        raise CouldNotRun(
            f"{text!r} is not the weight of a file", "write a number, or a difference as 1000 - {x}"
        ) from None
    if weight < 0:
        raise CouldNotRun(f"the weight {text!r} of a file is below 0", "give a factor that stays within")
    return weight
