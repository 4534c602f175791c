"""`sojourn completion SHELL` and `sojourn man DIR`: write completion scripts and manual pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.command_table import commands
from sojourn.commands.completion_scripts import Shell, script
from sojourn.commands.manual_pages import write_pages


def register(app: typer.Typer) -> None:
    @app.command("completion")
    def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
        """Print a shell's completion script.

        Each shell reads it from its own folder. In zsh, add that folder to `fpath` before calling `compinit`.

        Examples: sojourn completion bash > ~/.local/share/bash-completion/completions/sojourn

        sojourn completion zsh > ~/.zfunc/_sojourn

        sojourn completion fish > ~/.config/fish/completions/sojourn.fish
        """
        typer.echo(script(shell, commands(app)), nl=False)

    @app.command("man")
    def man(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to, as DIR/man1/*.1.")],
    ) -> None:
        """Write the manual pages, one per command.

        Example: sojourn man ~/.local/share/man && man sojourn-load
        """
        write_pages(commands(app), folder)
