"""Parses a tier: `NAME=KIND:VALUE`, or on another machine `NAME=ssh:HOST/KIND:VALUE`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from sojourn.failure import CouldNotRun

KINDS = {
    "port": "the processes that listen on this port",
    "pid": "this process, and those that descend from it",
    "command": "the processes whose command line this regular expression finds",
    "unit": "the processes of a systemd unit",
    "cgroup": "the processes of a control group, by its folder",
}
FORM = "as web=port:443, app=unit:gunicorn.service or db=ssh:db1/port:5432"


@dataclass(frozen=True)
class Tier:
    """A named tier and how to find its processes."""

    name: str
    kind: str
    value: str
    host: str | None = None
    """The remote host; None for this machine."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a declaration.

        Raises:
            CouldNotRun: it does not declare a tier.
        """
        name, equals, rest = text.partition("=")
        host = None
        if rest.startswith("ssh:"):
            host, slash, rest = rest.removeprefix("ssh:").partition("/")
            if not slash or not re.fullmatch(r"[\w.@:\[\]-]+", host) or host.startswith("-"):
                raise CouldNotRun(f"--tier {text!r} names no machine", FORM)
        kind, colon, value = rest.partition(":")
        if not equals or not re.fullmatch(r"[\w.-]+", name) or kind not in KINDS or not colon or not value:
            kinds = "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items())
            raise CouldNotRun(f"--tier {text!r} is none ({kinds})", FORM)
        if kind in ("port", "pid") and not (value.isdecimal() and 0 < int(value) < 1 << 22):
            raise CouldNotRun(f"--tier {text!r}: {value!r} is no {kind}", FORM)
        if kind == "command":
            try:
                re.compile(value)
            except re.error as error:
                raise CouldNotRun(f"--tier {text!r}: {error}", "a command is a regular expression") from error
        return cls(name, kind, value, host)

    @property
    def port(self) -> int | None:
        """The port that it listens on, if declared by port."""
        return int(self.value) if self.kind == "port" else None

    def __str__(self) -> str:
        where = f"ssh:{self.host}/" if self.host else ""
        return f"{self.name}={where}{self.kind}:{self.value}"


def parse_all(texts: list[str]) -> list[Tier]:
    """Parses several tiers, whose names must differ."""
    tiers = [Tier.parse(text) for text in texts]
    names = [tier.name for tier in tiers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CouldNotRun(f"two tiers are called {twice}", "give each a name of its own")
    return tiers
