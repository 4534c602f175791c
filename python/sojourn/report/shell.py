"""What every page of Sojourn has: head, style, heading, footer, and the script that shows what is under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from string import Template

from sojourn.report.markup import Markup, element, join


def shell(kind: str, title: str, subtitle: str, main: Markup, version: str, sources: Sequence[str]) -> str:
    """A whole page around its content; `sources` are the files beside it that it was drawn from."""
    folder = files("sojourn.report")
    names = [element("code", source) for source in sources]
    listed = join(join(*(join(name, ", ") for name in names[:-2])), names[-2], " and ", names[-1])
    return Template(folder.joinpath("shell.html").read_text()).substitute(
        style="".join(folder.joinpath(name).read_text() for name in ("plot.css", "report.css")),
        kind=join(kind),
        title=element("span", title),
        subtitle=element("span", subtitle),
        main=main,
        version=element("span", version),
        sources=listed,
    )
