"""Generates completion scripts for bash, zsh and fish from the table of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from sojourn import __version__
from sojourn.commands.command_table import HELP, VERSION, Command, Option, flattened

Shell = Literal["bash", "zsh", "fish"]


def script(shell: Shell, commands: Sequence[Command]) -> str:
    """The completion script of a shell."""
    head = f"# Completion of sojourn {__version__} for {shell}; made by `sojourn completion {shell}`.\n"
    return _SCRIPTS[shell](head, commands)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _last_word(command: Command) -> str:
    return command.name.split()[-1]


def _bash(head: str, commands: Sequence[Command]) -> str:
    words = "\n".join(f'        "{each.name}") words={_quoted(" ".join(_bash_words(each)))} ;;' for each in commands)
    values = "\n".join(
        f'        "{command.name.split()[0]}:{name}") words={_quoted(" ".join(option.choices))} ;;'
        for command in flattened(list(commands))
        for option in command.options
        if option.choices
        for name in option.names
    )
    firsts = " ".join([*(each.name for each in commands), *HELP.names, *VERSION.names])
    return f"""{head}_sojourn() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W {_quoted(firsts)} -- "$current"))
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


def _bash_words(command: Command) -> list[str]:
    subcommands = [_last_word(each) for each in command.subcommands]
    options = [name for each in flattened([command]) for option in each.options for name in option.names]
    return list(dict.fromkeys([*subcommands, *options]))


def _zsh(head: str, commands: Sequence[Command]) -> str:
    # The first line tells compinit which command a file in fpath completes.
    functions = "\n".join(_zsh_function(each) for each in [*_groups(commands), *flattened(list(commands))])
    return f"""#compdef sojourn
{head}{_zsh_choice("_sojourn", commands, (HELP, VERSION))}
{functions}
# Called by compinit, or read by `source`.
if [ "$funcstack[1]" = "_sojourn" ]; then
    _sojourn "$@"
else
    compdef _sojourn sojourn
fi
"""


def _groups(commands: Sequence[Command]) -> list[Command]:
    return [each for each in commands if each.subcommands]


def _zsh_name(command: Command) -> str:
    return "_sojourn_" + command.name.replace(" ", "_").replace("-", "_")


def _zsh_function(command: Command) -> str:
    if command.subcommands:
        return _zsh_choice(_zsh_name(command), command.subcommands, command.options)
    options = " \\\n".join(f"        {_quoted(spec)}" for option in command.options for spec in _zsh_specs(option))
    return f"{_zsh_name(command)}() {{\n    _arguments -s -S \\\n{options} \\\n        '*:file:_files'\n}}\n"


def _zsh_choice(name: str, commands: Sequence[Command], options: Sequence[Option]) -> str:
    described = "\n".join(f"        {_quoted(f'{_last_word(each)}:{each.summary}')}" for each in commands)
    chosen = "\n".join(f"        {_last_word(each)}) {_zsh_name(each)} ;;" for each in commands)
    flags = " ".join(_quoted(spec) for option in options for spec in _zsh_specs(option))
    return f"""{name}() {{
    local -a commands=(
{described}
    )
    if (( CURRENT == 2 )); then
        if [[ $PREFIX == -* ]]; then
            _arguments {flags}
        else
            _describe -t commands command commands
        fi
        return
    fi
    shift words
    (( CURRENT-- ))
    case "$words[1]" in
{chosen}
    esac
}}
"""


def _zsh_specs(option: Option) -> list[str]:
    summary = "".join("\\" + letter if letter in "[]\\" else letter for letter in option.summary)
    value = ""
    if option.choices:
        value = f":value:({' '.join(option.choices)})"
    elif option.value:
        value = ":value:_files"
    # A name is offered again only if the option may be repeated.
    first = "*" if option.repeats else f"({' '.join(option.names)})"
    # `--name=value` is valid; `-n` takes its value as the next word.
    return [f"{first}{name}{'=' if value and name.startswith('--') else ''}[{summary}]{value}" for name in option.names]


def _fish(head: str, commands: Sequence[Command]) -> str:
    lines = [
        head.rstrip("\n"),
        "# True where these are the words so far, or the first of them.",
        'function __sojourn_at; set -l words (commandline -opc); test "$words[2..]" = "$argv"; end',
        "function __sojourn_in",
        "    set -l words (commandline -opc)",
        '    test (count $words) -gt (count $argv); and test "$words[2..$(math 1 + (count $argv))]" = "$argv"',
        "end",
        *_fish_choice("__sojourn_at", commands, (HELP, VERSION)),
    ]
    for group in _groups(commands):
        lines += _fish_choice(f"__sojourn_at {group.name}", group.subcommands, group.options)
    for command in flattened(list(commands)):
        lines += [_fish_option(f"__sojourn_in {command.name}", option) for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_choice(condition: str, commands: Sequence[Command], options: Sequence[Option]) -> list[str]:
    # Without -f, fish would offer the files of the current folder as commands.
    words = [f"-f -a {_last_word(each)} -d {_quoted(each.summary)}" for each in commands]
    return [
        *(f"complete -c sojourn -n {_quoted(condition)} {each}" for each in words),
        *(_fish_option(condition, each) for each in options),
    ]


def _fish_option(condition: str, option: Option) -> str:
    spelled = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" * bool(option.value)
    return f"complete -c sojourn -n {_quoted(condition)} {spelled}{value} -d {_quoted(option.summary)}"


_SCRIPTS: dict[Shell, Callable[[str, Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
