"""`--web` and `--web-port`: the progress of a command on a page of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from sojourn.commands.formats import talk
from sojourn.commands.help import FurtherOption

if TYPE_CHECKING:
    from sojourn.report.live.server import LivePage

WEB_HELP = "Show progress on a page of this machine; prints its address."
WebFlag = Annotated[bool, FurtherOption("--web", help=WEB_HELP)]
WebPort = Annotated[int, FurtherOption("--web-port", min=0, max=65535, help="The page's port [default: a free one].")]


@contextmanager
def live_page(wanted: bool, port: int, title: str) -> Iterator[LivePage | None]:
    """Serves the page while the block runs, if it is wanted, and prints its address."""
    if not wanted:
        yield None
        return
    from sojourn.report.live.server import LivePage

    with LivePage(title, port) as page:
        talk.print(f"live: {page.address}", soft_wrap=True, highlight=False, markup=False)
        yield page
