"""What other people's names cannot do to the terminal."""

from __future__ import annotations

import io

from rich.table import Table

from sojourn.commands.formats import Terminal


def test_names_cannot_steer_the_terminal() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, width=80)
    table = Table("path")
    table.add_row("/\x1b[2J\x9b31m\u202egnp.exe")
    terminal.print("/\x1b]0;title\x07", table, "two\nlines")
    printed = file.getvalue()
    assert not any(character in printed for character in "\x1b\x9b\x07\u202e")
    assert "/\\x1b[2J\\x9b31m\\u202egnp.exe" in printed
    assert "/\\x1b]0;title\\x07" in printed
    assert "two\nlines" in printed
