"""The engine's description: its commands with their options, its architectures, its counters.

It is read from the file that `scripts/generate` writes, without starting the engine.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sojourn.engine.results import Command, Description, Option


@cache
def description() -> Description:
    """The description of the engine built with this package."""
    return Description.model_validate_json((files("sojourn.engine") / "describe.json").read_bytes())


def command(name: str) -> Command:
    """Looks an engine command up by name.

    Raises:
        KeyError: no such command.
    """
    found = next((each for each in description().commands if each.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def architectures(server: str = "serve") -> list[str]:
    """The architectures that `serve` or `proxy` accepts, in the order of the guide."""
    return [choice.name for choice in option(server, "architecture").choices]


def default_architecture(server: str = "serve") -> str:
    """The default architecture of a server."""
    default = option(server, "architecture").default
    assert default is not None, "it has a default"
    return default


def option(of: str, name: str) -> Option:
    """Looks an option of a command up by its long name without dashes.

    Raises:
        KeyError: no such option.
    """
    found = next((each for each in command(of).options if each.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def options_with_values(tool: str) -> frozenset[str]:
    """The options of a command, with their dashes, that take the next word as their value."""
    options = [option for option in command(tool).options if option.value is not None]
    return frozenset(f"--{option.name}" for option in options) | {f"-{each.short}" for each in options if each.short}
