"""Requests to simulate caches with: from an access log, a trace file, or a block trace.

A block trace is libCacheSim's oracleGeneral: per request, little-endian, the time in seconds (u32), the object (u64),
its size (u32) and when it is asked for next (i64, which is not needed). It is told by its name, which ends in
`.oracleGeneral.bin`, perhaps with `.gz` or `.zst` behind.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload.log import LogOptions, import_log, is_trace, load_trace, require_default

_ENTRY = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
_BLOCK_TRACE = ".oracleGeneral.bin"


def read_requests(
    source: str, options: LogOptions, seed: int, progress: Callable[[float, float | None], None]
) -> _native.CacheTrace:
    """The requests of `source`, in the order of their time.

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
        raise CouldNotRun(f"{source} holds no request", "give a log or a trace with some")
    return requests


def _block_trace(source: str) -> _native.CacheTrace:
    if source.endswith(".zst"):
        raise CouldNotRun(f"{source} is compressed with zstd", "decompress it first: zstd -d, or use gzip")
    try:
        data = gzip.decompress(Path(source).read_bytes()) if source.endswith(".gz") else Path(source).read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise CouldNotRun(f"cannot read {source}: {error}", "give a block trace, plain or gz") from error
    if len(data) % _ENTRY.itemsize:
        raise CouldNotRun(f"{source} ends in the middle of a request", "get it again: it was cut short")
    entries = np.frombuffer(data, _ENTRY)
    # As libCacheSim has it: what has no size is no request.
    entries = entries[entries["size"] > 0]
    return _native.CacheTrace(
        np.ascontiguousarray(entries["object"]), np.ascontiguousarray(entries["size"], dtype=np.uint64)
    )
