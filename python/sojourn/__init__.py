"""Sojourn: how much traffic can this web system take, what gives first, and what should change?

The commands (`sojourn --help`) are thin; each calls one module here. Everything between a byte arriving and a
number recorded is done by `sojourn-engine` and `sojourn._native`, both built from `crates/`.
"""

from importlib.metadata import version

__version__ = version("sojourn")
