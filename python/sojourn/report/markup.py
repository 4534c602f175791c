"""HTML and SVG elements as values. Text is escaped unless it is marked as markup, so escaping cannot be forgotten.

Log contents are untrusted: a path named `<script>` must reach the page as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

_VOID = frozenset({"br", "col", "img", "input", "meta"})


class Markup(str):
    """Text that is already markup: made by `element`, or one of the templates."""

    __slots__ = ()


def element(tag: str, *children: str | Iterable[str] | None, **attributes: str | float | bool | None) -> Markup:
    """An element; in attribute names a trailing underscore is dropped and others become hyphens."""
    opening = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(*children)}</{tag}>")


def join(*children: str | Iterable[str] | None) -> Markup:
    """Concatenates pieces, escaping plain text."""
    return Markup("".join(_text(child) for child in children))


def _text(child: str | Iterable[str] | None) -> str:
    if child is None:
        return ""
    if isinstance(child, str):
        return child if isinstance(child, Markup) else escape(child, quote=False)
    return "".join(_text(each) for each in child)


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {spelled}"
    # A tenth of a pixel is finer than any screen; more digits would only enlarge the file.
    text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
    return f' {spelled}="{escape(text)}"'


_STYLES = ("plot.css", "report.css")
# WebAssembly counts as evaluation, and the simulation is a worker made from a Blob. Nothing is ever loaded.
_CALCULATOR_POLICY = " 'wasm-unsafe-eval'; worker-src blob:"


def shell(
    kind: str,
    title: str,
    subtitle: str,
    main: Markup,
    version: str,
    sources: Sequence[str],
    *,
    calculates: bool = False,
) -> str:
    """A complete page around its content; `sources` are the files of the folder behind it, if there are any.

    A page that `calculates` has the section of `what_if`, and may run its WebAssembly.
    """
    folder = files("sojourn.report")
    names = [element("code", source) for source in sources]
    listed = join()
    if names:
        listed = join(join(*(join(name, ", ") for name in names[:-2])), names[-2], " and ", names[-1])
        listed = join(" from ", listed, " beside this file; they hold the exact figures")
    return Template(folder.joinpath("shell.html").read_text()).substitute(
        style="".join(
            folder.joinpath(name).read_text() for name in (*_STYLES, *(["what_if/what_if.css"] * calculates))
        ),
        policy=_CALCULATOR_POLICY if calculates else "",
        kind=join(kind),
        title=element("span", title),
        subtitle=element("span", subtitle),
        main=main,
        version=element("span", version),
        sources=listed,
    )


def as_json(value: object) -> Markup:
    """A value as the content of a script element, which no text of a log or a file can end."""
    return Markup(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c"))


def script(name: str) -> str:
    """The text of a script that several pages have."""
    return files("sojourn.report").joinpath(name).read_text()
