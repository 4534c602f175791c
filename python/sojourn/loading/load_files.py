"""What other machines need of this one for a load: the files that its options name, and users who are logged in.

A scenario names files, too: those go beside it. Each machine has its own part of the users, and gives them back, so
that they stay logged in from one load to the next.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.failure import CouldNotRun
from sojourn.loading.run import option, with_option

SCENARIO, USERS_FILE = "--scenario", "--users-file"
INPUT_FILES = ("--mix", "--session-log", "--walk", SCENARIO, "--body", "--cacert", "--media", USERS_FILE)
"""The engine's options that name a file to read."""


def files_of(words: Sequence[str]) -> dict[int, Path]:
    """The files of this machine that the engine's words name, by place: the trace of a replay, and inputs of options.

    A file that is not here is left to the machines, which may have it.
    """
    places = [place + 1 for place, word in enumerate(words[:-1]) if word in INPUT_FILES]
    if words[0] == "replay":
        places.append(1)
    return {place: Path(words[place]) for place in places if Path(words[place]).is_file()}


def with_files_beside(options: Sequence[str], folder: Path) -> tuple[list[str], dict[str, Path]]:
    """The options, whose scenario names its files by new names beside it, and these files by name.

    Args:
        options: the engine's; each with its value as a word of its own afterwards.
        folder: where the scenario is written.
    """
    whole = [part for word in options for part in _apart(word)]
    given = option(whole, SCENARIO)
    scenario = None if given is None else _scenario(Path(given))
    if given is None or scenario is None:
        return whole, {}
    beside = dict[str, Path]()
    for table, key in _named(scenario):
        path = Path(given).parent / table[key]
        if path.is_file():
            name = next((each for each, known in beside.items() if known == path), f"file-{len(beside)}")
            beside[name], table[key] = path, name
    if not beside:
        return whole, {}
    written = folder / "scenario.json"
    written.write_text(json.dumps(scenario))
    return with_option(whole, SCENARIO, str(written)), beside


def _apart(word: str) -> list[str]:
    name, equals, value = word.partition("=")
    return [name, value] if equals and name in INPUT_FILES else [word]


def _scenario(path: Path) -> dict[str, Any] | None:
    """A scenario's tables; None of what is none, about which the engine says more."""
    try:
        text = path.read_text()
        read = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        json.dumps(read)
    except (OSError, ValueError, TypeError):
        return None
    return read if isinstance(read, dict) else None


def _named(scenario: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The tables of a scenario that name a file, each with the key."""
    flows = _tables(scenario.get("flow"))
    requests = [
        each
        for tables in (scenario.get("login"), scenario.get("request"), *(flow.get("request") for flow in flows))
        for each in _tables(tables)
    ]
    for table in [
        *_tables([scenario.get("users")]),
        *(part for each in requests for part in _tables(each.get("multipart"))),
    ]:
        if isinstance(table.get("file"), str):
            yield table, "file"
    for table in requests:
        for key in ("targets", "body_file"):
            if isinstance(table.get(key), str):
                yield table, key


def _tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


@dataclass(frozen=True)
class LoggedIn:
    """The users of `--users-file`, who were logged in before."""

    path: Path
    users: Sequence[Any]

    @classmethod
    def of(cls, options: Sequence[str]) -> LoggedIn | None:
        """Those of the options; None without the option.

        Raises:
            CouldNotRun: no one has logged in.
        """
        given = option(options, USERS_FILE)
        if given is None:
            return None
        try:
            users = json.loads(Path(given).read_text())
        except (OSError, ValueError) as error:
            raise CouldNotRun(
                f"{given} has no users who are logged in: {error}",
                "run the load once without --cluster: its users log in, and the machines then share them",
            ) from error
        return cls(Path(given), users)

    def parts(self, counts: Sequence[int], folder: Path) -> list[Path]:
        """A file for each machine, with so many of the users."""
        paths, begin = list[Path](), 0
        for place, count in enumerate(counts):
            paths.append(folder / f"users-{place}.json")
            _write_private(paths[-1], self.users[begin : begin + count])
            begin += count
        return paths

    def keep(self, parts: Sequence[Path], came_back: Sequence[str | None]) -> None:
        """Writes all of them, as they came back, or as they went to a machine that gave none back."""
        users = [
            user
            for path, text in zip(parts, came_back, strict=True)
            for user in json.loads(path.read_text() if text is None else text)
        ]
        _write_private(self.path, sorted(users, key=lambda user: user["number"]))


def _write_private(path: Path, users: object) -> None:
    """Writes a file that only its owner may read, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(users, file)
    part.replace(path)
