"""Completion scripts and manual pages, as the shells and groff read them."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from sojourn.commands.app import app, register
from sojourn.commands.command_table import Command, commands, flattened
from sojourn.commands.completion_scripts import script
from sojourn.commands.manual_pages import write_pages

SECONDS_MAX = 30

CASES = [
    ("sojourn ass", {"assess"}),
    ("sojourn load --connection ", {"close", "keep-alive"}),
    ("sojourn serve --architecture ", {"amped", "sped"}),
    ("sojourn assess --effort q", {"quick"}),
    ("sojourn plan ", {"system", "web99"}),
]
"""What was typed, and the words that must be offered; a single one must be completed."""

_IN_BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
[ -n "{last}" ] || {{ COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)); }}
_sojourn
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def all_commands() -> list[Command]:
    register(None)
    return commands(app)


def _needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash_completes(all_commands: list[Command], tmp_path: Path, typed: str, offered: set[str]) -> None:
    path = tmp_path / "sojourn.bash"
    path.write_text(script("bash", all_commands))
    asked = _IN_BASH.format(script=path, words=typed, last=typed.rpartition(" ")[2])
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert offered <= set(done.stdout.split()), done


def _fish(script: Path, typed: str) -> set[str]:
    asked = f"source {script}; complete -C '{typed}'"
    done = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, cwd=script.parent)
    assert not done.stderr
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


@_needs("fish")
@pytest.mark.parametrize(("typed", "offered"), [*CASES, ("sojourn load --cli", {"--clients"})])
def test_fish_completes(all_commands: list[Command], tmp_path: Path, typed: str, offered: set[str]) -> None:
    path = tmp_path / "sojourn.fish"
    path.write_text(script("fish", all_commands))
    assert offered <= _fish(path, typed)


@_needs("fish")
def test_fish_offers_no_option_of_another_command_and_no_file_for_one(
    all_commands: list[Command], tmp_path: Path
) -> None:
    path = tmp_path / "sojourn.fish"
    path.write_text(script("fish", all_commands))
    # `load` is a word here, not the command.
    assert "--clients" not in _fish(path, "sojourn plan system load --")
    assert path.name not in _fish(path, "sojourn ")
    assert path.name in _fish(path, "sojourn trace soj")


@_needs("zsh")
@pytest.mark.parametrize("from_folder", [True, False], ids=["in fpath", "by source"])
@pytest.mark.parametrize(("typed", "offered"), [*CASES, ("sojourn load --cli", {"--clients="})])
def test_zsh_completes(
    all_commands: list[Command], tmp_path: Path, typed: str, offered: set[str], from_folder: bool
) -> None:
    path = tmp_path / "_sojourn"
    path.write_text(script("zsh", all_commands))
    begun = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D"
    if not from_folder:
        begun = f"autoload -U compinit; compinit -u -D; source {path}"
    # What was typed is echoed: only the first Tab's answer may hold these.
    whole = [f"{typed.rpartition(' ')[0]} {word}" for word in offered] if len(offered) == 1 else sorted(offered)
    shown = _zsh(begun, typed, whole)
    assert all(each in shown for each in whole), shown


def _zsh(begun: str, typed: str, awaited: list[str]) -> str:
    """What a terminal shows once Tab was pressed behind the words."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", COLUMNS="200", LINES="100")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        # The quotes keep the echo of the command from being taken for its output.
        os.write(terminal, f"PS1= PS2= LISTMAX=9999; stty cols 200 rows 100; {begun}; echo rea''dy\n".encode())
        _read(terminal, ["ready"])
        os.write(terminal, f"{typed}\t".encode())
        return _read(terminal, awaited)
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def _read(terminal: int, awaited: list[str]) -> str:
    shown = b""
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end and not all(each.encode() in shown for each in awaited):
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536)
    return shown.decode(errors="replace")


@pytest.fixture(scope="module")
def pages(all_commands: list[Command], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    write_pages(all_commands, folder)
    return folder / "man1"


def _shown(page: Path) -> str:
    """A page as `man` shows it on 80 columns."""
    command = ["groff", "-Kutf8", "-man", "-Tutf8", "-P-cbou", "-rLL=80n", "-ww", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


def test_a_page_names_every_option(all_commands: list[Command], pages: Path) -> None:
    load = (pages / "sojourn-load.1").read_text()
    options = next(command for command in flattened(all_commands) if command.name == "load").options
    assert {"--clients", "--transport", "--threshold"} <= {name for option in options for name in option.names}
    assert all(name.replace("-", "\\-") in load for option in options for name in option.names)


@_needs("groff")
def test_every_page_has_what_a_reader_looks_for(all_commands: list[Command], pages: Path) -> None:
    for command in flattened(all_commands):
        text = _shown(pages / f"sojourn-{command.name.replace(' ', '-')}.1")
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            assert f"\n{heading}\n" in text, (command.name, text)
        # A word that is longer cannot be broken.
        assert all(len(line) <= 80 or " " not in line.strip() for line in text.splitlines()), text
        if "Example" in command.details:
            assert text.count("\nEXAMPLES\n") == 1, text
            assert " sojourn " in text.split("\nEXAMPLES\n")[1]
    overview = _shown(pages / "sojourn.1")
    assert all(f"sojourn-{command.name.replace(' ', '-')}(1)" in overview for command in flattened(all_commands))


@_needs("groff")
def test_quotes_of_an_example_can_be_pasted_into_a_shell(pages: Path) -> None:
    assert " '100/s for 10s, ramp to 1000/s in 30s, 1000/s for 30s'\n" in _shown(pages / "sojourn-load.1")
