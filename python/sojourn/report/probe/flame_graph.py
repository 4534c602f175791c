"""Draws a profile as a flame graph, a standalone SVG: widths are shares of CPU time, with callers below.

It is drawn like the report's plots: colours from the style sheet, values as tooltips, no script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files

from sojourn.probe.profile import Profile
from sojourn.report.markup import Markup, element
from sojourn.text import format

WIDTH = 1160.0
ROW_HEIGHT = 18.0
TITLE_HEIGHT = 44.0
LETTER_WIDTH = 6.6
SHARE_MIN = 0.0005
"""Narrower frames, thinner than a pixel, are left out."""
WITHOUT_SYMBOLS_SHOWN_MAX = 5
_STYLE = """
svg { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.paper { fill: var(--paper); }
svg text.title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.frame rect { fill: var(--colour); fill-opacity: .28; stroke: var(--paper); stroke-width: 1; }
.frame:hover rect { fill-opacity: .6; }
.frame text { fill: var(--ink); font-size: 11.5px; }
"""


@dataclass
class _Frame:
    """A function called from a particular stack."""

    name: str
    samples: int = 0
    children: dict[str, _Frame] = field(default_factory=dict)


def flame_graph(profile: Profile, title: str) -> str:
    root = _tree(profile)
    depth = _depth(root, root.samples)
    height = TITLE_HEIGHT + (depth + 1) * ROW_HEIGHT + 8
    seconds = profile.samples / profile.frequency
    said = f"{profile.samples:,} samples, {format.seconds(seconds)} of CPU time ({profile.event})"
    if profile.without_symbols:
        shown = ", ".join(profile.without_symbols[:WITHOUT_SYMBOLS_SHOWN_MAX])
        said += f"; no symbols, so shown whole in brackets: {shown}"
    frames: list[Markup] = []
    _draw(root, 0.0, WIDTH, height - ROW_HEIGHT - 4, root.samples, frames)
    return element(
        "svg",
        element("style", Markup(files("sojourn.report").joinpath("plot.css").read_text() + _STYLE)),
        element("rect", width=WIDTH, height=height, class_="paper"),
        element("text", title, x=8.0, y=18.0, class_="title"),
        element("text", said, x=8.0, y=36.0),
        element("g", frames),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_label=f"{title}: {said}",
    )


def _tree(profile: Profile) -> _Frame:
    root = _Frame("all")
    for stack, count in profile.stacks.items():
        root.samples += count
        frame = root
        for name in stack:
            frame = frame.children.setdefault(name, _Frame(name))
            frame.samples += count
    return root


def _depth(frame: _Frame, total: int) -> int:
    drawn = [each for each in frame.children.values() if each.samples >= SHARE_MIN * total]
    return 1 + max((_depth(each, total) for each in drawn), default=0)


def _draw(frame: _Frame, x: float, width: float, y: float, total: int, into: list[Markup]) -> None:
    share = frame.samples / total if total else 0.0
    said = f"{frame.name}: {format.percent(share)}, {frame.samples:,} samples"
    letters = int((width - 6) / LETTER_WIDTH)
    shown = frame.name if len(frame.name) <= letters else frame.name[: max(0, letters - 1)] + "…"
    colour = 2 if frame.name.startswith("[") or frame.name.endswith("_k]") else 1
    text = element("text", shown, x=x + 3, y=y + 13) if letters >= 3 else None
    box = element("rect", x=x, y=y, width=width, height=ROW_HEIGHT - 1)
    into.append(element("g", element("title", said), box, text, class_=f"frame colour-{colour}"))
    for child in sorted(frame.children.values(), key=lambda each: each.name):
        child_width = width * child.samples / frame.samples
        if child.samples >= SHARE_MIN * total:
            _draw(child, x, child_width, y - ROW_HEIGHT, total, into)
        x += child_width
