"""Groups of options that several commands share, each declared once.

A group is a function whose parameters are the options and which returns one value, such as `read_options` in
`log_options`, or a dataclass whose fields are the options. A command takes that value as one parameter; `spread`
replaces the parameter by the group's options. The type checker cannot follow this, hence `Any`.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


def spread(command: Callable[..., None], parameter: str, group: Callable[..., Any]) -> Callable[..., None]:
    """Returns the command with `parameter` replaced by the options of a group."""
    options = _parameters(group)
    own = _parameters(command)
    del own[parameter]

    @functools.wraps(command)
    def spreading(*arguments: Any, **values: Any) -> None:
        value = group(**{name: values.pop(name) for name in options})
        command(*arguments, **{parameter: value}, **values)

    # typer reads the signature, and the annotations for its types.
    parameters = [*own.values(), *options.values()]
    spreading.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    )
    spreading.__annotations__ = {each.name: each.annotation for each in parameters}
    return spreading


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    return {name: parameter.replace(annotation=hints[name]) for name, parameter in parameters.items()}
