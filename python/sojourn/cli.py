"""The command line: `sojourn COMMAND`. Each command lives in its own file under `commands/`.

Only the requested command is imported, because the libraries of others take seconds to load. Help and version import
none.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from sojourn import interrupts
from sojourn.commands import catalogue


def main() -> None:
    for each in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, interrupts.end_at_once)
    words = sys.argv[1:]
    if words == ["--version"]:
        from sojourn import __version__

        print(f"sojourn {__version__}")
    elif not words:
        print(catalogue.first_steps(), end="")
        sys.exit(2)
    elif words[0] in ("--help", "-h"):
        print(catalogue.help_text(), end="")
    elif words[0] not in catalogue.COMMANDS:
        _refuse(words[0])
    else:
        _run(words[0])


def _refuse(word: str) -> NoReturn:
    from difflib import get_close_matches

    kind = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, catalogue.COMMANDS)
    print(f"error: there is no {kind} {word!r}", file=sys.stderr)
    print(f"hint: {f'did you mean sojourn {near[0]}?' if near else 'sojourn --help shows all'}", file=sys.stderr)
    sys.exit(2)


def _run(command: str) -> NoReturn:
    from sojourn.commands import app

    app.register(command)
    interrupts.raise_from_now_on()
    code = app.run()
    interrupts.ignore_from_now_on()
    sys.exit(code)
