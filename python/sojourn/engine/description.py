"""What the engine is: its commands with their options, its architectures, its counters.

Read from the file that `scripts/generate` writes, so that no engine needs to be started to know it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sojourn.engine.results import Command, Description, Option


@cache
def description() -> Description:
    """The engine as it was built with this package."""
    return Description.model_validate_json((files("sojourn.engine") / "describe.json").read_bytes())


def command(name: str) -> Command:
    """The engine's command of that name.

    Raises:
        KeyError: there is none.
    """
    found = next((each for each in description().commands if each.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def architectures(server: str = "serve") -> list[str]:
    """The architectures that `serve` or `proxy` accepts, in the order in which the guide explains them."""
    return [choice.name for choice in option(server, "architecture").choices]


def default_architecture(server: str = "serve") -> str:
    """The architecture of a server that was told nothing."""
    default = option(server, "architecture").default
    assert default is not None, "it has a default"
    return default


def option(of: str, name: str) -> Option:
    """An option of a command, by its long name without dashes.

    Raises:
        KeyError: there is none.
    """
    found = next((each for each in command(of).options if each.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def options_with_values(tool: str) -> frozenset[str]:
    """The options of a command, with their dashes, that take the next word as their value."""
    options = [option for option in command(tool).options if option.value is not None]
    return frozenset(f"--{option.name}" for option in options) | {f"-{each.short}" for each in options if each.short}
