"""File sets: the files of a site with their sizes and popularity.

A file set is a list of entries, determined by its parameters and seed. `write` writes the files, with a manifest for
programs and a WebStone file list for `sojourn load --mix`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload import site

MANIFEST = "manifest.json"
FILELIST = "filelist"
FILES_MAX = 10_000_000
"""The most files: the manifest of more would take a gigabyte."""
WEIGHT_MAX = 1_000_000_000
"""The largest weight in a file list, to which shares are scaled."""
QUANTILES = 100
"""The number of files at a distribution's quantiles: one in this many requests is for the largest."""

WEBSTONE = (
    ("/file500.html", 500, 350),
    ("/file5k.html", 5_125, 500),
    ("/file50k.html", 51_250, 140),
    ("/file500k.html", 512_500, 9),
    ("/file5m.html", 5_248_000, 1),
)
"""Path, bytes and weight of WebStone 2's standard file list (filelist.standard); its weights sum to 1000."""


@dataclass(frozen=True)
class File:
    """A file: its path below the site, bytes, class of the workload, and share of the requests (unnormalised)."""

    path: str
    bytes: int
    file_class: str
    weight: float


@dataclass(frozen=True)
class FileSet:
    """Files with the parameters behind them."""

    kind: str
    files: list[File]
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """The size of all files, in bytes."""
        return sum(file.bytes for file in self.files)

    @property
    def response_bytes_mean(self) -> float:
        """The mean size of a response in bytes."""
        weights = sum(file.weight for file in self.files)
        return sum(file.bytes * file.weight for file in self.files) / weights

    def summary(self) -> dict[str, object]:
        """Totals and means of the file set."""
        return {
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "files": len(self.files),
            "total_bytes": self.total_bytes,
            "response_bytes_mean": self.response_bytes_mean,
        }


def webstone() -> FileSet:
    """WebStone's five files."""
    return FileSet("webstone", [File(path, size, "webstone", weight) for path, size, weight in WEBSTONE])


def web99(load: int) -> FileSet:
    """The static files of a SPECweb99-like file set for so many connections.

    int(25 + (400000/122000 * load)/5) directories with four classes of nine files; popularity follows Zipf's law over
    the directories and over the files of a class. `sojourn load --web99` requests the same files.
    """
    try:
        rows = _native.web99_files(load)
    except (ValueError, OverflowError) as error:
        raise CouldNotRun(f"no file set for a load of {load:,} connections: {error}") from error
    files = [File(path, size, f"class{number}", share) for path, size, number, share in rows]
    return FileSet("web99", files, {"load": load})


@dataclass(frozen=True)
class LogNormal:
    """Sizes with a log-normal body of this mean and coefficient of variation, and optionally a Pareto tail.

    With a tail, the largest `tail_fraction` of the sizes follow a Pareto distribution of `tail_index` from the
    body's quantile on; their mean then differs from the body's. Popularity is Zipf's with exponent `zipf`,
    independent of size.
    """

    files: int
    mean_bytes: float
    cv: float
    tail_index: float | None = None
    tail_fraction: float = 0.01
    largest_bytes: int = 10**9
    zipf: float = 1.0
    seed: int = 1


def lognormal(law: LogNormal) -> FileSet:
    """Draws the sizes of files from a distribution."""
    _check(law)
    random = np.random.default_rng(law.seed)
    sigma = math.sqrt(math.log1p(law.cv**2))
    mu = math.log(law.mean_bytes) - sigma**2 / 2
    sizes = np.exp(mu + sigma * random.standard_normal(law.files))
    if law.tail_index is not None:
        # The order statistic replaces the quantile, so that body and tail meet without a gap.
        in_tail = np.argsort(sizes)[law.files - round(law.tail_fraction * law.files) :]
        if in_tail.size:
            threshold = sizes[in_tail].min()
            sizes[in_tail] = threshold * (1.0 - random.random(in_tail.size)) ** (-1.0 / law.tail_index)
    whole = np.clip(np.rint(sizes), 1, law.largest_bytes).astype(np.int64)
    weights = random.permutation(1.0 / np.arange(1, law.files + 1) ** law.zipf)
    rows = enumerate(zip(whole.tolist(), weights.tolist(), strict=True))
    files = [
        File(f"/{number // 1000:04d}/{number:07d}.bin", size, "lognormal", weight) for number, (size, weight) in rows
    ]
    return FileSet("lognormal", files, asdict(law))


def lognormal_quantiles(mean_bytes: float, sigma: float, files: int = QUANTILES) -> FileSet:
    """Files of equal weight at a log-normal distribution's quantiles, scaled so that their mean is exact.

    They follow the distribution as closely as this number of files allows, and do not depend on a seed.
    """
    normal = NormalDist()
    raw = [math.exp(sigma * normal.inv_cdf((number + 0.5) / files)) for number in range(files)]
    scale = mean_bytes * files / sum(raw)
    rows = [File(f"/{number:04d}.bin", max(1, round(size * scale)), "lognormal", 1) for number, size in enumerate(raw)]
    return FileSet("lognormal-quantiles", rows, {"mean_bytes": mean_bytes, "sigma": sigma})


def with_mean(file_set: FileSet, mean_bytes: float) -> FileSet:
    """Scales all files so that the mean response has this size."""
    scale = mean_bytes / file_set.response_bytes_mean
    files = [replace(file, bytes=max(1, round(file.bytes * scale))) for file in file_set.files]
    return FileSet(file_set.kind, files, {**file_set.parameters, "mean_bytes": mean_bytes})


def _check(law: LogNormal) -> None:
    limits = (
        ("--files", law.files, 1 <= law.files <= FILES_MAX, f"from 1 to {FILES_MAX:,}"),
        ("--mean", law.mean_bytes, law.mean_bytes >= 1, "at least 1B"),
        ("--cv", law.cv, 0 <= law.cv <= 100, "from 0 to 100"),
        ("--tail-index", law.tail_index, law.tail_index is None or law.tail_index > 0, "above 0"),
        ("--tail-fraction", law.tail_fraction, 0 < law.tail_fraction < 1, "between 0 and 1"),
        ("--largest", law.largest_bytes, law.largest_bytes >= 1, "at least 1B"),
        ("--zipf", law.zipf, 0 <= law.zipf <= 10, "from 0 to 10"),
    )
    for name, value, holds, wanted in limits:
        if not holds:
            raise CouldNotRun(f"{name} {value} is not allowed", f"give a value {wanted}")


def from_trace(trace: _native.Trace | _native.StoredTrace, log_name: str) -> FileSet:
    """The documents of a trace, under the paths that `sojourn replay` requests."""
    files = [File(path, size, "document", requests) for _, size, path, requests in trace.documents()]
    return FileSet("from-log", files, {"log": log_name})


def write(
    file_set: FileSet, folder: Path, limit_bytes: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Writes missing files, then the file list and finally the manifest; returns the number of files written.

    A folder with a manifest is therefore complete. Files of the right size are kept, so that an interrupted run can be
    resumed.

    Raises:
        CouldNotRun: the folder holds another file set, the set is above the limit or the disk's room, or a file
            cannot be written.
    """
    manifest = folder / MANIFEST
    text = _manifest(file_set)
    if manifest.is_file() and manifest.read_text() != text:
        raise CouldNotRun(f"{folder} holds another file set", f"give another --output, or remove {folder} first")
    documents = [(file.path, file.bytes) for file in file_set.files]
    written = site.build(folder, documents, limit_bytes, progress)
    try:
        write_lists(file_set, folder)
    except OSError as error:
        raise CouldNotRun(f"cannot write {error.filename}: {error.strerror}") from error
    return written


def write_lists(file_set: FileSet, folder: Path) -> None:
    """Writes the file list and finally the manifest."""
    (folder / FILELIST).write_text(filelist(file_set))
    (folder / MANIFEST).write_text(_manifest(file_set))


def filelist(file_set: FileSet) -> str:
    """WebStone's format, `path weight #bytes` per line; weights are whole numbers, at least one for requested files."""
    heaviest = max(file.weight for file in file_set.files)
    whole = all(float(file.weight).is_integer() for file in file_set.files) and heaviest <= WEIGHT_MAX
    scale = 1.0 if whole else WEIGHT_MAX / heaviest
    lines = (
        f"{file.path} {max(1, round(file.weight * scale)) if file.weight else 0} #{file.bytes}\n"
        for file in file_set.files
    )
    return "".join(lines)


def _manifest(file_set: FileSet) -> str:
    rows = (
        json.dumps({"path": file.path, "bytes": file.bytes, "class": file.file_class, "weight": file.weight})
        for file in file_set.files
    )
    head = json.dumps({**file_set.summary(), "format": 1})
    # One file per line, so that line-based tools can compare and search manifests.
    return f'{head[:-1]}, "entries": [\n' + ",\n".join(rows) + "\n]}\n"
