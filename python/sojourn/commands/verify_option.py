"""`--verify` with or without a value: alone it stands for all changes.

The option parser knows no optional values. The word behind `--verify` is taken for one only if it names changes, so
that `sojourn assess --verify access.log` reads as it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.assessment.verification.changes import ALL, CHANGES
from sojourn.commands.help import Command

if TYPE_CHECKING:
    from typer._click import Context

NAME = "--verify"


class WithVerify(Command):
    """A command with `--verify`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parses what was typed, with the value that `--verify` alone stands for."""
        return super().parse_args(ctx, with_value(args))


def with_value(words: Sequence[str]) -> list[str]:
    """The words, with `all` behind a `--verify` that has no changes behind it."""
    whole: list[str] = []
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        whole.append(word)
        if word == NAME and not _names_changes(behind):
            whole.append(ALL)
    return whole


def _names_changes(word: str) -> bool:
    # One known name is enough: a misspelt one beside it is then refused by name.
    return word == ALL or any(part.strip() in CHANGES for part in word.split(","))
