"""Reads TOML documents up to a size limit, and writes keys and values, for which the standard library has no writer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.failure import CouldNotRun

Table = dict[str, Any]
"""A TOML table; its reader checks the content."""

_DELETE = "\x7f"


def key(name: str) -> str:
    """A TOML key, quoted where necessary."""
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else string(name)


def string(text: str) -> str:
    # A JSON string is a TOML string, but for the one control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace(_DELETE, "\\u007F")


def one_line(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def inline(
    value: object, number: Callable[[float], str] = str, listed: Callable[[Sequence[str]], str] = one_line
) -> str:
    """A value as written after its key; `number` formats floats, `listed` joins the items of a list."""
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {inline(part, number, listed)}" for name, part in value.items()) + " }"
    if isinstance(value, Sequence):
        return listed([inline(each, number, listed) for each in value])
    if isinstance(value, bool):
        return str(value).lower()
    return number(value) if isinstance(value, float) else str(value)


BYTES_MAX = 1 << 20
"""The largest file read; the native reader of system files has the same limit."""


def read_text(path: Path, cure: str) -> str:
    """Reads the file's text.

    Raises:
        CouldNotRun: it cannot be read, is too large, or is not text; `cure` suggests what to give instead.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise CouldNotRun(f"cannot read {path}: {error.strerror}", cure) from error
    if len(raw) > BYTES_MAX:
        raise CouldNotRun(f"{path} is larger than {BYTES_MAX:,} bytes", cure)
    try:
        return decoded(raw)
    except UnicodeDecodeError:
        if is_utf_16(raw):
            raise CouldNotRun(f"{path} is text in UTF-16", "save it as UTF-8") from None
        raise CouldNotRun(f"{path} is not text in UTF-8", cure) from None


def decoded(raw: bytes) -> str:
    """Decodes UTF-8, without the byte-order mark that some editors write."""
    return raw.decode("utf-8-sig")


def is_utf_16(raw: bytes) -> bool:
    """Returns true if the bytes start like UTF-16 text."""
    return raw.startswith((b"\xff\xfe", b"\xfe\xff"))
