"""Reads requests for cache simulation: from an access log, a trace file, or a block trace.

A block trace is in libCacheSim's oracleGeneral format: per request, little-endian, the time in seconds (u32), the
object (u64), its size (u32) and the time of its next request (i64, unused). It is recognised by its name, which ends
in `.oracleGeneral.bin`, optionally with `.gz` or `.zst`.
"""

from __future__ import annotations

import copyreg
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, import_log, is_trace, load_trace, require_default

_ENTRY = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
_BLOCK_TRACE = ".oracleGeneral.bin"


def read_requests(
    source: str, options: LogOptions, seed: int, progress: Callable[[float, float | None], None]
) -> _native.CacheTrace:
    """Reads the requests of `source` in order of time.

    Raises:
        CouldNotRun: it cannot be read, or holds no request.
    """
    name = source.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(_BLOCK_TRACE):
        require_default(source, options)
        requests = _block_trace(source)
    elif is_trace(source):
        requests = _native.CacheTrace.of_trace(load_trace(source, options))
    else:
        trace, _ = import_log(source, options, seed, progress)
        requests = _native.CacheTrace.of_trace(trace)
    if not len(requests):
        raise CouldNotRun(f"{source} contains no request", "give a log or a trace with some")
    return requests


def fingerprint(requests: _native.CacheTrace) -> list[int]:
    """Numbers that differ between traces."""
    checks = [zlib.crc32(each.tobytes()) for each in (requests.objects(), requests.sizes())]
    return [len(requests), requests.object_count, *checks]


def _block_trace(source: str) -> _native.CacheTrace:
    if source.endswith(".zst"):
        raise CouldNotRun(f"{source} is compressed with zstd", "decompress it first: zstd -d, or use gzip")
    try:
        data = gzip.decompress(Path(source).read_bytes()) if source.endswith(".gz") else Path(source).read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise CouldNotRun(f"cannot read {source}: {error}", "give a block trace, plain or gz") from error
    if len(data) % _ENTRY.itemsize:
        raise CouldNotRun(f"{source} ends in the middle of a request", "download it again: it is truncated")
    entries = np.frombuffer(data, _ENTRY)
    # As in libCacheSim, an entry without a size is not a request.
    entries = entries[entries["size"] > 0]
    return _native.CacheTrace(
        np.ascontiguousarray(entries["object"]), np.ascontiguousarray(entries["size"], dtype=np.uint64)
    )


def _restored(objects: NDArray[np.uint32], sizes: NDArray[np.uint64], object_count: int) -> _native.CacheTrace:
    return _native.CacheTrace.numbered(objects, sizes, object_count)


def _reduced(requests: _native.CacheTrace) -> tuple[object, tuple[object, ...]]:
    return _restored, (requests.objects(), requests.sizes(), requests.object_count)


# Requests go to the workers of a cluster.
copyreg.pickle(_native.CacheTrace, _reduced)  # type: ignore[arg-type]
