"""The documentation site: Sphinx over the Markdown that a code host shows, too.

`docs/README.md` is the first page, and its tables are the navigation: each heading is a group, and each row whose first
cell links to a page is an entry with that link's text. A page that no table names is an error, and so is a link to a
page, a heading or a file that is missing. The site loads nothing from elsewhere: fonts are the reader's, and formulas
are MathML.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util.nodes import clean_astext
from sphinx.writers.html5 import HTML5Translator

FIRST_PAGE = "README"

project = html_title = "Sojourn"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = FIRST_PAGE
exclude_patterns = ["site"]
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 6

html_theme = "furo"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"
# Summaries are fetched, which no browser allows from a file.
html_show_search_summary = False

DOCS = Path(__file__).parents[1]
_ABOVE = re.compile(r"(?<=\]\()(\.\./[^)#:]+)(?=\))")
_GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^\| \[([^\]]+)\]\(([^)#:]+)\.md\) \|", re.MULTILINE)


def navigation_from_tables(_app: Sphinx, page: str, source: list[str]) -> None:
    """Adds to the first page a table of contents for each of its groups; the text itself stays as it is."""
    if page != FIRST_PAGE:
        return
    _, *parts = _GROUP.split(source[0])
    for group, text in zip(parts[::2], parts[1::2], strict=True):
        entries = [f"{title} <{target}>" for title, target in _ENTRY.findall(text)]
        source[0] += "\n\n" + "\n".join(["```{toctree}", ":hidden:", f":caption: {group}", "", *entries, "```"])


def files_of_the_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Makes a link to a file outside `docs`, or to a folder's README, a link to a copy: it is no page of the site."""
    folder = Path(app.env.doc2path(page)).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        if target.is_relative_to(DOCS):
            return found[1]
        return f"path:{found[1]}" + ("/README.md" if target.is_dir() else "")

    source[0] = _ABOVE.sub(link, source[0])


def as_mathml(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Writes a formula as MathML, which browsers draw without a script."""
    is_block = isinstance(node, nodes.math_block)
    formula = latex2mathml.tex2mathml(clean_astext(node), as_block=is_block)
    translator.body.append(f'<div class="math">{formula}</div>' if is_block else formula)
    raise nodes.SkipNode


def as_index(app: Sphinx, error: Exception | None) -> None:
    """Copies the first page to where a browser looks for one."""
    if error is None:
        site = Path(app.outdir)
        shutil.copyfile(site / f"{FIRST_PAGE}.html", site / "index.html")


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(as_mathml, None), block_renderers=(as_mathml, None))
    app.connect("source-read", navigation_from_tables)
    app.connect("source-read", files_of_the_repository)
    app.connect("build-finished", as_index)
