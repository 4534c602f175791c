"""`--verify` with an optional value: without one it means all changes.

The option parser does not support optional values. The word after `--verify` counts as its value only if it names
changes, so that `sojourn assess --verify access.log` works as expected.
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
        """Parses the command line after adding the default value of `--verify`."""
        return super().parse_args(ctx, with_value(args))


def with_value(words: Sequence[str]) -> list[str]:
    """Inserts `all` after a `--verify` that no changes follow."""
    whole: list[str] = []
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        whole.append(word)
        if word == NAME and not _names_changes(behind):
            whole.append(ALL)
    return whole


def _names_changes(word: str) -> bool:
    # One known name is enough: a misspelt one beside it is then refused by name.
    return word == ALL or any(part.strip() in CHANGES for part in word.split(","))
