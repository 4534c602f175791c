"""The commands in documents: fenced blocks, read as a script to run and as words to look up.

In a `console` block the lines behind `$ ` are commands and the others are what they printed; a `sh` block has commands
alone, and a `python` block is a program. A block below a paragraph that ends with "as `NAME`:" is a file of that name;
so is one with a name like `shop.toml` behind its language. Other words there say how a block is tried:

- `slow`: in the slow test only;
- `exact`: its command must print the lines that are shown, in that order; a line `...` stands for what was left out;
- `untried`: never, because it needs what a test does not have (root, another machine). Its words are looked up.

Every port of a page is replaced by a free one, so that pages can be tried beside each other. A server that is not in
the background (`&`) is stopped by SIGTERM where the next one begins or the page ends, and must then end with 0.

Tutorials begin with nothing. Explanations have a `Reader` who has files and servers already, and types them shorter:
seconds of `--duration` and of schedules become 500 ms, a warm-up 100 ms, ten clients stand for more, two repetitions
for five, and a search ends after 2 s. A server at its default port gets a free one, too.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, SOJOURN

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<words>[^`]*)$")
_FILE = re.compile(r"as `([^`]+)`:$")
_FILE_WORD = re.compile(r"[\w-]+\.toml")
_PORT = re.compile(r"(?:(?<=127\.0\.0\.1:)|(?<=0\.0\.0\.0:)|(?<=localhost:)|(?<=port:)|(?<=--port ))\d{4,5}")
_PROMPT = re.compile(
    r"^\s*(?:\$ |- run: |server\$ |ExecStart=/usr/bin/)?(?:sudo )?(?=sojourn(?:-engine)? |make |examples/|scripts/)"
)
_SERVES = re.compile(r"sojourn (serve|proxy|stream) (?!.*--print-config)", re.DOTALL)
_AT_ITS_DEFAULT = re.compile(
    r"(sojourn(?:-engine)? (serve|proxy|stream))(?= )(?!.*--(?:tls-)?listen )(?!.*--config )", re.DOTALL
)
_DEFAULT_PORTS = {"serve": 8080, "proxy": 8080, "stream": 8554}
_SHORTER = [
    (re.compile(pattern, re.DOTALL), text)
    for pattern, text in (
        (r"--duration \d+s\b", "--duration 500ms"),
        (r"\bfor \d+s\b", "for 500ms"),
        (r"--warm-up [1-9]\d*s\b", "--warm-up 100ms"),
        # Viewers of films have no warm-up.
        (r"sojourn load (?=http://)(?!\S+\.m3u8)(?!.*--warm-up)", "sojourn load --warm-up 100ms "),
        (r"--clients \d\d+", "--clients 10"),
        (r"--repeat \d+", "--repeat 2"),
        (r"--search ", "--search-time 2s --search "),
        (r"--seconds \d+", "--seconds 2"),
        (r"--copies \d+", "--copies 3"),
    )
]
CUT = "..."
BESIDE = ("studies", "examples")
"""What a reader's working directory has of ours: pages say to begin in the checkout."""


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
        """The commands that a reader types, joined where a backslash continues them; none of a file."""
        if self.file is not None:
            return []
        if self.language == "python":
            return [Command(f"python3 - <<'END'\n{self.text}END", self.line)]
        found: list[Command] = []
        continued = False
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            typed = line.removeprefix("$ ") if self.language == "console" else line
            if continued:
                found[-1].text += "\n" + line
            elif typed is not line or (self.language == "sh" and line.strip() and not line.startswith("#")):
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
            file = named[1] if named else next(filter(_FILE_WORD.fullmatch, words), None)
            opened, text = (fence, language, tuple(words), number, file), []
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
class Reader:
    """What a reader of an explanation has, and what stands for what a test does not have."""

    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    """Files and folders by their names, with what makes them."""
    servers: Sequence[str] = ()
    """Commands of servers that run beside the page."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Parts of the page's commands, and what is typed in their place; one after another."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """How commands begin that are not tried, and why."""
    needs: Sequence[str] = ()
    """Programs without which the page is not tried."""

    def leaves_out(self, command: str) -> bool:
        return command.startswith(tuple(self.left_out))

    def types(self, command: str) -> str:
        """A command of the page as it is tried."""
        for written, typed in self.instead.items():
            command = command.replace(written, typed)
        for pattern, typed in _SHORTER:
            command = pattern.sub(typed, command)
        return _AT_ITS_DEFAULT.sub(lambda of: f"{of[1]} --listen 127.0.0.1:{_DEFAULT_PORTS[of[2]]}", command)


@dataclass(frozen=True)
class Try:
    """A page as a script: files to write first, and commands, each of which prints into `out.N`."""

    files: dict[str, str]
    commands: list[Command]
    exact: set[int]
    script: str


def tried(page: Path, *, slow: bool) -> list[Block]:
    """The blocks of a page that are tried, with or without the slow ones."""
    return [block for block in blocks(page) if "untried" not in block.words and (slow or "slow" not in block.words)]


_BEGIN = """set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
server=
stop() {
    [ -n "$server" ] || return 0
    echo "$number" >reached
    kill "$server"
    wait "$server"
    server=
}
listens() {
    until grep -qs '^listening on' "out.$number"; do
        kill -0 "$server"
        sleep 0.05
    done
}"""
"""`server` is the process of the server that the page started last, `number` that of its command."""


def as_script(page: Path, *, slow: bool, reader: Reader | None = None) -> Try:
    """Returns what a reader of the page would do, with or without the slow blocks."""
    read = tried(page, slow=slow)
    typed: list[Command] = []
    exact: set[int] = set()
    for block in read:
        for command in block.commands():
            if reader is not None and reader.leaves_out(command.text):
                continue
            if "exact" in block.words:
                exact.add(len(typed))
            text = command.text if reader is None else reader.types(command.text)
            typed.append(Command(text, command.line, command.shown))
    servers = () if reader is None else reader.servers
    ports = _free_ports("\n".join([page.read_text(), *servers, *(command.text for command in typed)]))
    commands = [Command(_with(ports, command.text), command.line, command.shown) for command in typed]
    lines = [_BEGIN]
    for number, server in enumerate(_with(ports, server) for server in servers):
        lines += [f"{{ exec {server}\n}} >server.{number} 2>&1 &", *map(_wait_for, _PORT.findall(server))]
    for number, command in enumerate(commands):
        lines += _script_of(number, command)
    files = {block.file: _with(ports, block.text) for block in read if block.file is not None}
    return Try(files, commands, exact, "\n".join([*lines, "stop"]) + "\n")


def _script_of(number: int, command: Command) -> list[str]:
    is_behind = command.text.rstrip().endswith("&")
    if _SERVES.match(command.text) and not is_behind:
        started = [f"{{ exec {command.text}\n}} >out.{number} 2>&1 &", f"server=$! number={number}"]
        return ["stop", f"echo {number} >reached", *started, "listens"]
    # With 1 Sojourn says that it ran and did not like what it measured, as on a busy machine.
    allowed = " || [ $? -eq 1 ]" if command.text.startswith("sojourn ") else ""
    lines = [f"echo {number} >reached", f"{{ {command.text}\n}} >out.{number} 2>&1{allowed}"]
    return lines + [_wait_for(port) for port in _PORT.findall(command.text) if is_behind]


def run_page(page: Path, folder: Path, *, slow: bool, reader: Reader | None = None) -> None:
    """Does in the folder what a reader of the page would do, and fails where that fails."""
    done = as_script(page, slow=slow, reader=reader)
    for name in BESIDE:
        (folder / name).symlink_to(REPOSITORY / name)
    for name, text in done.files.items():
        (folder / name).write_text(text)
    environment = {**os.environ, "PATH": f"{SOJOURN.parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    ran = subprocess.run(
        ["bash", "-c", done.script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        number = int((folder / "reached").read_text())
        command = done.commands[number]
        printed = (folder / f"out.{number}").read_text()
        pytest.fail(
            f"{page.name}, line {command.line}: exit code {ran.returncode}\n$ {command.text}\n{printed}{ran.stderr}"
        )
    for number in sorted(done.exact):
        command, printed = done.commands[number], (folder / f"out.{number}").read_text()
        missing = first_difference(command.shown, printed)
        assert missing is None, (
            f"{page.name}, line {command.line}: not printed: {missing!r}\n$ {command.text}\n{printed}"
        )


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
        yield from looked_up(block)


def looked_up(block: Block) -> Iterator[tuple[int, list[str]]]:
    """The words of every command of ours in a block, with its line."""
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
