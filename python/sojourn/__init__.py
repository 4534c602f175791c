"""Sojourn: how much traffic can this web system take, what is its bottleneck, and what should change?

The commands (`sojourn --help`) are thin; each calls one module here. Everything between a byte arriving and a
number recorded is done by `sojourn-engine` and `sojourn._native`, both built from `crates/`.

For scripts and notebooks: `sojourn.load`, `sojourn.search` and `sojourn.compare`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.loading.api import compare, load, search

    __version__: str

__all__ = ["compare", "load", "search"]


def __getattr__(name: str) -> object:
    # The commands import this package, too, without waiting for the imports that only scripts need.
    if name == "__version__":
        return import_module("importlib.metadata").version("sojourn")
    if name in __all__:
        return getattr(import_module("sojourn.loading.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
