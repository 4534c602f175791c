"""The help of the commands that Python parses has two storeys where one would be long."""

from __future__ import annotations

import re

import pytest
import typer
from typer.core import TyperCommand

from sojourn.commands.app import app, register
from sojourn.commands.command_table import Command, commands, flattened, is_passed_on

OPTIONS_MAX = 15
"""As many does the first storey have, besides the help's own."""
HELPS = {"--help", "--help-all"}

register(None)
GROUP = typer.main.get_group(app)


def _is_parsed_here(command: Command) -> bool:
    found = GROUP.commands[command.name.split()[0]]
    return not (isinstance(found, TyperCommand) and is_passed_on(found))


OURS = [each for each in flattened(commands(app)) if _is_parsed_here(each)]


def _help(command: Command, which: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        GROUP.main([*command.name.split(), which], prog_name="sojourn")
    assert ended.value.code == 0
    return capsys.readouterr().out


def _options(text: str) -> set[str]:
    return {f"--{name}" for name in re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([\w-]+)", text, re.MULTILINE)}


@pytest.mark.parametrize("command", OURS, ids=lambda command: command.name)
def test_the_first_storey_is_short_and_the_second_has_every_option(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = _help(command, "--help", capsys), _help(command, "--help-all", capsys)
    shown, all_of_them = _options(short) - HELPS, _options(whole) - HELPS
    assert len(shown) <= OPTIONS_MAX
    assert all_of_them == {option.names[0] for option in command.options} - HELPS
    if shown == all_of_them:
        assert short == whole
    else:
        more = len(all_of_them - shown)
        assert f"\n{more} more option{'s' * (more > 1)}: sojourn {command.name} --help-all" in short
    for text in (short, whole):
        assert f"Usage: sojourn {command.name} [OPTIONS]" in text
        assert "...." not in text
        assert "Example" in text
        assert all(len(line) <= 80 or " " not in line.strip() for line in text.splitlines()), text


@pytest.mark.parametrize("group", ["cache", "fileset"])
def test_a_group_takes_both_options_too(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for which in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as ended:
            GROUP.main([group, which], prog_name="sojourn")
        assert ended.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "Commands" in shown[0]
