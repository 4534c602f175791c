"""Recordings of browsers (HTTP Archive, HAR) as access logs: a line of JSON for each answer of the recorded site.

A recording is what one browser saw of many servers. The site is the host of its first request; what went to others is
left out and said. The log lies in memory and lives as long as this process, or what it becomes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sojourn.failure import CouldNotRun

RECORDING_BYTES_MAX = 1 << 30
_LOOKED_AT_BYTES = 4096
# Container runtimes write logs of lines {"log": "..."}.
_BEGINNING = re.compile(rb'\s*\{\s*"log"\s*:\s*\{')


def is_recording(path: str) -> bool:
    """True if a file is one."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return _BEGINNING.match(file.read(_LOOKED_AT_BYTES).removeprefix(b"\xef\xbb\xbf")) is not None


@cache
def as_log(path: str) -> str:
    """The path of a log of JSON lines with what a recording has of its site.

    Raises:
        CouldNotRun: it is damaged, or has no answer of the site.
    """
    entries = _entries(path)
    site = urlsplit(str(entries[0]["request"]["url"])).netloc
    lines, others = [], 0
    for entry in entries:
        url = urlsplit(str(entry["request"]["url"]))
        if url.netloc != site:
            others += 1
        elif int(entry["response"].get("status") or 0) >= 100:
            lines.append(_line(entry, url.path, url.query, Path(path).stem))
    if not lines:
        raise CouldNotRun(f"{path}: the recording has no response from {site}", "record it again, with its contents")
    if others:
        print(f"warning: {path}: {others} requests to hosts other than {site} are left out", file=sys.stderr)
    descriptor = os.memfd_create("recording", 0)
    with open(descriptor, "w", encoding="utf-8", closefd=False) as file:  # it has no path
        file.writelines(sorted(lines))
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _entries(path: str) -> list[dict[str, Any]]:
    if Path(path).stat().st_size > RECORDING_BYTES_MAX:
        raise CouldNotRun(f"{path} has more than {RECORDING_BYTES_MAX >> 20} MiB", "record it without contents")
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8-sig"))["log"]["entries"]
        timed = [(_seconds(each["startedDateTime"]), place, each) for place, each in enumerate(entries)]
        for _, _, each in timed:
            each["request"]["url"], each["request"]["method"], each["response"].get  # they are there
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CouldNotRun(
            f"{path} is not a complete recording (HAR): {type(error).__name__}: {error}",
            "export it again from the browser",
        ) from error
    if not timed:
        raise CouldNotRun(f"{path}: the recording is empty", "record the site with the browser's developer tools open")
    return [each for _, _, each in sorted(timed, key=lambda one: one[:2])]


def _line(entry: dict[str, Any], path: str, query: str, client: str) -> str:
    took = _number(entry.get("time")) / 1e3
    response = entry["response"]
    content = response.get("content")
    decoded = _number(content.get("size")) if isinstance(content, dict) else 0.0
    # As a server logs it, when the answer is over; what came from the browser's cache has a size of its content alone.
    sent = _number(response.get("bodySize"))
    over = datetime.fromtimestamp(_seconds(entry["startedDateTime"]) + took).astimezone()
    fields = {
        "timestamp": over.isoformat(timespec="microseconds"),
        "client": client,
        "method": str(entry["request"]["method"]),
        "request_uri": (path or "/") + (f"?{query}" if query else ""),
        "status": int(response["status"]),
        "bytes": round(sent if sent > 0 else decoded),
        "request_time": took,
    }
    return json.dumps(fields) + "\n"


def _seconds(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def _number(value: object) -> float:
    """The value of a field that browsers leave out or set to -1."""
    return max(0.0, float(value)) if isinstance(value, (int, float)) else 0.0
