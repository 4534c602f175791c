"""What two plans of a study differ in, in words: who goes on in a folder wants to know what has changed since.

Values of lists are compared as sets, systems and other tables with a name by that. A key that one plan lacks and the
other leaves empty is no difference: it came with a later version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHOWN_MAX = 60
"""Characters of a value that are quoted."""


def differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """A phrase for each."""
    return list(_of_tables("", held, wanted))


def _of_tables(path: str, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*held, *wanted]):
        yield from _of_values(f"{path}.{name}" if path else name, held.get(name), wanted.get(name))


def _of_values(path: str, held: Any, wanted: Any) -> Iterator[str]:
    if held == wanted or (not held and not wanted and None in (held, wanted)):
        return
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        yield from _of_tables(path, held, wanted)
    elif _are_named(held) and _are_named(wanted):
        tables = ({each["name"]: each for each in side} for side in (held, wanted))
        yield from _of_tables(path, *tables)
    elif isinstance(held, list) and isinstance(wanted, list):
        yield from _of_lists(path, held, wanted)
    elif held is None:
        yield f"{path} is new"
    elif wanted is None:
        yield f"{path} is no more"
    else:
        yield f"{path} was {_shown(held)} and is {_shown(wanted)}"


def _of_lists(path: str, held: Sequence[Any], wanted: Sequence[Any]) -> Iterator[str]:
    new = [_shown(each) for each in wanted if each not in held]
    gone = [_shown(each) for each in held if each not in wanted]
    if new:
        yield f"{path} has {', '.join(new)} in addition"
    if gone:
        yield f"{path} has lost {', '.join(gone)}"
    if not new and not gone:
        yield f"{path} has another order"


def _are_named(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, Mapping) and "name" in each for each in values)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
