"""The report's tables: turns rows of text into HTML."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.loading.record import Saturation
from sojourn.report.markup import Markup, element

Row = Sequence[str | None]


def pairs(identifier: str, title: str, rows: Sequence[tuple[str, str | None]], note: str | None = None) -> Markup:
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return _table(identifier, title, None, body, note, "pairs")


def grid(
    identifier: str,
    title: str,
    head: Sequence[Row],
    rows: Sequence[Row],
    note: str | None = None,
    finding: str | None = None,
) -> Markup:
    """A table with column headers; a header of `None` merges with the one on its left.

    `finding`, the statement that the table supports, appears above it.
    """
    return _table(identifier, title, [_head(row) for row in head], _body(rows), note, "grid", finding)


def texts(identifier: str, title: str, head: Row, rows: Sequence[Row], note: str | None = None) -> Markup:
    """A table of mostly text, whose cells wrap."""
    return _table(identifier, title, [_head(head)], _body(rows), note, "texts")


def absent(identifier: str, title: str, because: str) -> Markup:
    """The replacement for a table without data."""
    said = element("p", f"Not measured: {because}", class_="missing")
    return element("section", element("h3", title), said, id=identifier, class_="table")


def _body(rows: Sequence[Row]) -> list[Markup]:
    return [
        element("tr", element("th", row[0], scope="row"), [element("td", cell or "") for cell in row[1:]])
        for row in rows
    ]


def _head(row: Row) -> Markup:
    cells: list[tuple[str, int]] = []
    for cell in row:
        if cell is None:
            name, span = cells.pop()
            cells.append((name, span + 1))
        else:
            cells.append((cell, 1))
    drawn = [element("th", name, scope="col", colspan=span if span > 1 else None) for name, span in cells]
    return element("tr", drawn)


def _table(
    identifier: str,
    title: str,
    head: Sequence[Markup] | None,
    body: Sequence[Markup],
    note: str | None,
    class_: str,
    finding: str | None = None,
) -> Markup:
    table = element("table", element("thead", head) if head else None, element("tbody", body), class_=class_)
    return element(
        "section",
        element("h3", title),
        element("p", finding, class_="finding") if finding else None,
        element("div", table, class_="scrolls", tabindex=0),
        element("p", note, class_="note") if note else None,
        id=identifier,
        class_="table",
    )


LOADS_SHOWN_MAX = 6
"""The most load columns that fit; those left out are the lowest loads, and those far above saturation."""
_TITLE = "Where the time goes"


def where_time_goes(saturation: Saturation | None) -> Markup:
    """The bottleneck in a sentence, and the usage of each resource in a table."""
    # The module uses this package's formats, so a global import would be circular.
    from sojourn.loading.saturation import written

    if saturation is None:
        return absent("table-saturation", _TITLE, "the server was not probed (--probe)")
    # Without a saturated resource, the highest loads came nearest to saturation.
    first = saturation.loads.index(saturation.at) if saturation.at is not None else len(saturation.loads)
    begin = max(0, min(first, len(saturation.loads) - LOADS_SHOWN_MAX))
    shown = range(begin, min(len(saturation.loads), begin + LOADS_SHOWN_MAX))
    rows = [
        (
            use.name,
            *(f"{written(use, use.values[place])}{' ●' if use.is_saturated(place) else ''}" for place in shown),
            use.criterion,
        )
        for use in saturation.uses
    ]
    head = ("Resource", *(saturation.loads[place] for place in shown), "Full from")
    note = "● saturated. Memory stalls concern the whole machine; causes stand above effects."
    return grid("table-saturation", _TITLE, [head], rows, note, finding=saturation.sentence)
