"""`sojourn completion SHELL` and `sojourn man DIR`: completion scripts and manual pages, from the table of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.command_table import commands
from sojourn.commands.completion_scripts import Shell, script
from sojourn.commands.manual_pages import write_pages


def register(app: typer.Typer) -> None:
    """Adds both commands."""

    @app.command("completion")
    def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
        """Print the completion script of a shell.

        Each shell reads it from a folder of its own; in zsh, `fpath` must have that folder before `compinit` is called.

        Examples: sojourn completion bash > ~/.local/share/bash-completion/completions/sojourn

        sojourn completion zsh > ~/.zfunc/_sojourn

        sojourn completion fish > ~/.config/fish/completions/sojourn.fish
        """
        typer.echo(script(shell, commands(app)), nl=False)

    @app.command("man")
    def man(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the pages go, as DIR/man1/*.1.")],
    ) -> None:
        """Write the manual pages, one per command.

        Example: sojourn man ~/.local/share/man && man sojourn-load
        """
        write_pages(commands(app), folder)
