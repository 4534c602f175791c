"""Describes the differences between two plans of a study, for a user who resumes in an existing folder.

Lists are compared as sets, systems and other named tables by name. A key that is absent in one plan and empty in the
other is no difference: a later version added it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

SHOWN_MAX = 60
"""The longest quotation of a value."""


def differences(held: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """One phrase per difference."""
    return list(_of_tables("", held, wanted))


def _of_tables(path: str, held: Mapping[str, object], wanted: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys([*held, *wanted]):
        yield from _of_values(f"{path}.{name}" if path else name, held.get(name), wanted.get(name))


def _of_values(path: str, held: object, wanted: object) -> Iterator[str]:
    if held == wanted or (not held and not wanted and None in (held, wanted)):
        return
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        yield from _of_tables(path, held, wanted)
    elif (before := _by_name(held)) is not None and (after := _by_name(wanted)) is not None:
        yield from _of_tables(path, before, after)
    elif isinstance(held, list) and isinstance(wanted, list):
        yield from _of_lists(path, held, wanted)
    elif held is None:
        yield f"{path} is new"
    elif wanted is None:
        yield f"{path} was removed"
    else:
        yield f"{path} was {_shown(held)} and is {_shown(wanted)}"


def _of_lists(path: str, held: Sequence[object], wanted: Sequence[object]) -> Iterator[str]:
    new = [_shown(each) for each in wanted if each not in held]
    gone = [_shown(each) for each in held if each not in wanted]
    if new:
        yield f"{path} has {', '.join(new)} in addition"
    if gone:
        yield f"{path} has lost {', '.join(gone)}"
    if not new and not gone:
        yield f"{path} has a different order"


def _by_name(values: object) -> Mapping[str, object] | None:
    """Indexes a list's tables by name; None for anything else."""
    if not isinstance(values, list) or not all(isinstance(each, Mapping) and "name" in each for each in values):
        return None
    return {each["name"]: each for each in values}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
