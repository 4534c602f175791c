"""Completion scripts and manual pages name every command, and are what the shells can read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.cli import app, register
from sojourn.commands import shell

_COMPLETE = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
[ -n "{last}" ] || {{ COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)); }}
_sojourn
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def commands() -> list[shell.Command]:
    register(None)
    return shell.commands(app)


@pytest.mark.parametrize(
    ("words", "last", "some"),
    [
        ("sojourn ass", "ass", {"assess"}),
        ("sojourn load --cl", "--cl", {"--clients"}),
        ("sojourn serve --architecture", "", {"amped", "sped"}),
        ("sojourn assess --effort q", "q", {"quick"}),
        ("sojourn plan", "", {"system", "web99"}),
    ],
)
def test_bash_completes(commands: list[shell.Command], tmp_path: Path, words: str, last: str, some: set[str]) -> None:
    script = tmp_path / "sojourn.bash"
    script.write_text(shell.SCRIPTS["bash"](commands))
    asked = _COMPLETE.format(script=script, words=words, last=last)
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert some <= set(done.stdout.split()), done


def test_fish_and_zsh_know_every_command_too(commands: list[shell.Command]) -> None:
    for name in ("fish", "zsh"):
        script = shell.SCRIPTS[name](commands)
        assert all(command.name.split()[0] in script for command in commands)


def test_a_page_names_every_option(commands: list[shell.Command], tmp_path: Path) -> None:
    shell.write_pages(commands, tmp_path)
    load = (tmp_path / "man1" / "sojourn-load.1").read_text()
    options = next(command for command in commands if command.name == "load").options
    assert len(options) > 20
    assert all(name.replace("-", "\\-") in load for option in options for name in option.names)
    if groff := shutil.which("groff"):
        checked = subprocess.run(
            [groff, "-Kutf8", "-man", "-Tutf8", "-ww", "-z", *sorted(map(str, (tmp_path / "man1").iterdir()))],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not checked.stderr
