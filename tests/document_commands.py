"""The commands in documents: fenced blocks, read as a script to run and as words to look up.

In a `console` block the lines behind `$ ` are commands and the others are what they printed; a `sh` block has commands
alone. A block below a paragraph that ends with "as `NAME`:" is a file of that name. Words behind the language of a
block say how it is tried:

- `slow`: in the slow test only;
- `exact`: its command must print the lines that are shown, in that order; a line `...` stands for what was left out;
- `untried`: never, because it needs what a test does not have (root, another machine). Its words are looked up.

Every port of a page is replaced by a free one, so that pages can be tried beside each other.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<words>[^`]*)$")
_FILE = re.compile(r"as `([^`]+)`:$")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}|(?<=localhost:)\d{4,5}|(?<=port:)\d{4,5}")
_PROMPT = re.compile(
    r"^\s*(?:\$ |- run: |server\$ |ExecStart=/usr/bin/)?(?:sudo )?(?=sojourn(?:-engine)? |make |examples/|scripts/)"
)
CUT = "..."


@dataclass
class Command:
    """A command of a block, and the lines that the document shows below it."""

    text: str
    line: int
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    words: tuple[str, ...]
    line: int
    text: str
    file: str | None
    """The name under which the reader is told to save it."""

    def commands(self) -> list[Command]:
        """The commands that a reader types, joined where a backslash continues them."""
        found: list[Command] = []
        continued = False
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            typed = line.removeprefix("$ ") if self.language == "console" else line
            if continued:
                found[-1].text += "\n" + line
            elif typed is not line or (self.language == "sh" and line.strip()):
                found.append(Command(typed, number))
            elif self.language == "console" and found:
                found[-1].shown.append(line)
                continue
            continued = bool(found) and found[-1].text.endswith("\\")
        return found


def blocks(page: Path) -> list[Block]:
    """Reads the fenced blocks of a page."""
    found = []
    paragraph, opened = "", None
    text: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            language, *words = fence["words"].split() or [""]
            named = _FILE.search(paragraph)
            opened, text = (fence, language, tuple(words), number, named and named[1]), []
        elif opened and fence and fence["fence"] == opened[0]["fence"] and not fence["words"].strip():
            indent = len(opened[0]["indent"])
            content = "".join(f"{each[indent:]}\n" for each in text)
            found.append(Block(opened[1], opened[2], opened[3], content, opened[4]))
            opened, paragraph = None, ""
        elif opened:
            text.append(line)
        elif line.strip():
            paragraph = line.rstrip()
    assert opened is None, f"{page}: the block at line {opened and opened[3]} has no end"
    return found


@dataclass(frozen=True)
class Try:
    """A page as a script: files to write first, and commands, each of which prints into `out.N`."""

    files: dict[str, str]
    commands: list[Command]
    exact: set[int]
    script: str


def as_script(page: Path, *, slow: bool) -> Try:
    """Returns what a reader of the page would do, with or without the slow blocks."""
    read = [block for block in blocks(page) if "untried" not in block.words and (slow or "slow" not in block.words)]
    ports = _free_ports(page.read_text())
    commands: list[Command] = []
    exact: set[int] = set()
    for block in read:
        for command in block.commands() if block.file is None else []:
            if "exact" in block.words:
                exact.add(len(commands))
            commands.append(Command(_with(ports, command.text), command.line, command.shown))
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for number, command in enumerate(commands):
        # With 1 Sojourn says that it ran and did not like what it measured, as on a busy machine.
        allowed = " || [ $? -eq 1 ]" if command.text.startswith("sojourn ") else ""
        lines += [f"echo {number} >reached", f"{{ {command.text}\n}} >out.{number} 2>&1{allowed}"]
        if command.text.rstrip().endswith("&"):
            lines += [_wait_for(port) for port in _PORT.findall(command.text)]
    files = {block.file: _with(ports, block.text) for block in read if block.file is not None}
    return Try(files, commands, exact, "\n".join(lines) + "\n")


def _free_ports(text: str) -> dict[str, str]:
    """A free port for each that the page names; all are held until all are known."""
    held = {port: socket.create_server(("127.0.0.1", 0)) for port in set(_PORT.findall(text))}
    found = {port: str(listener.getsockname()[1]) for port, listener in held.items()}
    for listener in held.values():
        listener.close()
    return found


def _with(ports: dict[str, str], text: str) -> str:
    return _PORT.sub(lambda port: ports[port[0]], text)


def _wait_for(port: str) -> str:
    # A reader types the next command long after the server listens.
    return f"for i in {{1..200}}; do (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && break || sleep 0.05; done"


def first_difference(shown: list[str], printed: str) -> str | None:
    """Returns the first line of `shown` that was not printed in its place; None if all were."""
    rest = iter(line.rstrip() for line in printed.splitlines())
    may_skip = True
    for line in (each.rstrip() for each in shown):
        if line == CUT:
            may_skip = True
            continue
        found = next((each for each in rest if each == line), None) if may_skip else next(rest, None)
        if found != line:
            return line
        may_skip = False
    return None


def command_lines(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The words of every command of ours in the page's blocks, whatever their language, with its line."""
    for block in blocks(page):
        lines = block.text.splitlines()
        for offset, line in enumerate(lines):
            if not _PROMPT.match(line) or (block.language == "console" and not line.startswith("$ ")):
                continue
            whole = _PROMPT.sub("", line, count=1)
            while whole.endswith("\\") and offset + 1 < len(lines):
                offset += 1
                whole = whole[:-1] + lines[offset]
            reader = shlex.shlex(whole, posix=True, punctuation_chars=True)
            reader.whitespace_split = True
            yield from ((block.line + offset, words) for words in _split(list(reader)))


def _split(words: list[str]) -> Iterator[list[str]]:
    """Cuts at pipes, redirections and the like: only the words of our own programs are of interest."""
    part: list[str] = []
    for word in [*words, ";"]:
        if not set(word) <= set("|&;<>()") or not word:
            part.append(word)
            continue
        if part and re.match(r"(sojourn(-engine)?|make|(examples|scripts)/.+)$", part[0]):
            yield part
        part = []
