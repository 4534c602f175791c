"""`sojourn completion SHELL` and `sojourn man DIR`: completion scripts and manual pages, from the tables of options.

Commands that Python parses are read from the option parser, those of the engine from its description.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from sojourn import __version__
from sojourn.engine import description

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class Option:
    """An option as a shell sees it."""

    names: tuple[str, ...]
    """With their dashes."""
    summary: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command and its options; subcommands are named with a space."""

    name: str
    summary: str
    options: tuple[Option, ...]


def register(app: typer.Typer) -> None:
    """Adds both commands."""

    @app.command("completion")
    def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
        """Print the completion script of a shell.

        Example: sojourn completion bash > ~/.local/share/bash-completion/completions/sojourn
        """
        typer.echo(SCRIPTS[shell](commands(app)), nl=False)

    @app.command("man")
    def man(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the pages go, as DIR/man1/*.1.")],
    ) -> None:
        """Write the manual pages, one per command.

        Example: sojourn man ~/.local/share/man && man sojourn-load
        """
        write_pages(commands(app), folder)


def commands(app: typer.Typer) -> list[Command]:
    """Every command that `app` has, with every option."""
    return [each for name, command in typer.main.get_group(app).commands.items() for each in _described(name, command)]


def _described(name: str, command: object) -> list[Command]:
    if isinstance(command, TyperGroup):
        return [each for sub, inner in command.commands.items() for each in _described(f"{name} {sub}", inner)]
    assert isinstance(command, TyperCommand)
    options = {option.names: option for option in (*_of_the_engine(name), *_of_python(command))}
    return [Command(name, command.get_short_help_str(200), tuple(options.values()))]


def _of_python(command: TyperCommand) -> list[Option]:
    return [
        Option(
            tuple(each.opts),
            (each.help or "").split("\n")[0],
            not each.is_flag,
            tuple(map(str, each.type_descriptor.choices or ())),
        )
        for each in command.params
        if isinstance(each, TyperOption) and not each.hidden
    ]


def _of_the_engine(name: str) -> list[Option]:
    try:
        found = description.command(name)
    except KeyError:
        return []
    return [
        Option(
            (f"--{each.name}",) + ((f"-{each.short}",) if each.short else ()),
            each.help,
            each.value is not None,
            tuple(choice.name for choice in each.choices) if each.value is not None else (),
        )
        for each in found.options
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _names(command: Command) -> str:
    return " ".join(name for option in command.options for name in option.names)


def _firsts(all_commands: Sequence[Command]) -> dict[str, list[Command]]:
    firsts: dict[str, list[Command]] = {}
    for command in all_commands:
        firsts.setdefault(command.name.split()[0], []).append(command)
    return firsts


def _bash(all_commands: Sequence[Command]) -> str:
    firsts = _firsts(all_commands)
    words = "\n".join(
        f"        {_pattern(name)}) words={_quoted(_words(name, group))} ;;" for name, group in firsts.items()
    )
    values = "\n".join(
        f"        {_pattern(f'{command.name.split()[0]}:{name}')}) words={_quoted(' '.join(option.choices))} ;;"
        for command in all_commands
        for option in command.options
        if option.choices
        for name in option.names
    )
    return f"""# Completion of sojourn {__version__} for bash; made by `sojourn completion bash`.
_sojourn() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W {_quoted(" ".join([*firsts, "--help", "--version"]))} -- "$current"))
        return
    fi
    case "$command:$previous" in
{values}
    esac
    if [ -z "$words" ] && [[ $current == -* || $COMP_CWORD -eq 2 ]]; then
        case "$command" in
{words}
        esac
    fi
    [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _sojourn sojourn
"""


def _pattern(text: str) -> str:
    return f'"{text}"'


def _words(first: str, group: Sequence[Command]) -> str:
    subcommands = [command.name.removeprefix(first).strip() for command in group]
    return " ".join(dict.fromkeys(filter(None, [*subcommands, *" ".join(map(_names, group)).split()])))


def _zsh(all_commands: Sequence[Command]) -> str:
    body = _bash(all_commands).partition("\n")[2]
    return (
        f"#compdef sojourn\n# Completion of sojourn {__version__} for zsh; made by `sojourn completion zsh`.\n"
        f"autoload -U +X bashcompinit && bashcompinit\n{body}"
    )


def _fish(all_commands: Sequence[Command]) -> str:
    lines = [f"# Completion of sojourn {__version__} for fish; made by `sojourn completion fish`."]
    for first, group in _firsts(all_commands).items():
        lines.append(f"complete -c sojourn -n __fish_use_subcommand -a {first} -d {_quoted(group[0].summary)}")
    for command in all_commands:
        first, *rest = command.name.split()
        seen = f"-n '__fish_seen_subcommand_from {first}'"
        lines += [f"complete -c sojourn {seen} -a {sub} -d {_quoted(command.summary)}" for sub in rest]
        for option in command.options:
            spelled = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" * option.takes_value
            lines.append(f"complete -c sojourn {seen} {spelled}{value} -d {_quoted(option.summary)}")
    return "\n".join(lines) + "\n"


SCRIPTS: dict[Shell, Callable[[Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""The text of a shell's completion script for the commands."""


def write_pages(all_commands: Sequence[Command], folder: Path) -> None:
    """Writes sojourn.1 and a page per command into `folder`/man1, which is made if need be."""
    pages = folder / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    (pages / "sojourn.1").write_text(_overview(all_commands))
    for command in all_commands:
        (pages / f"sojourn-{command.name.replace(' ', '-')}.1").write_text(_page(command))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def _page(command: Command) -> str:
    title = f"sojourn-{command.name.replace(' ', '-')}"
    lines = [
        f'.TH {_roff(title.upper())} 1 "" "sojourn {__version__}"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(command.summary)}",
        ".SH SYNOPSIS",
        f".B sojourn {_roff(command.name)}",
        "[OPTIONS]",
        ".SH OPTIONS",
    ]
    for option in command.options:
        lines += [".TP", ", ".join(f"\\fB{_roff(name)}\\fR" for name in option.names), _roff(option.summary)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR sojourn (1)", ""])


def _overview(all_commands: Sequence[Command]) -> str:
    lines = [
        f'.TH SOJOURN 1 "" "sojourn {__version__}"',
        ".SH NAME",
        "sojourn \\- how much traffic a web system can take, what its bottleneck is, and what to change",
        ".SH COMMANDS",
    ]
    for command in all_commands:
        lines += [".TP", f"\\fBsojourn {_roff(command.name)}\\fR", _roff(command.summary)]
    return "\n".join([*lines, ""])
