"""Ctrl-C and kill: both ask a command to end and to keep what it has.

They raise `KeyboardInterrupt` where nothing would be lost (`raise_from_now_on`, `raised`), wait while something would
be (`held`), and are handed on to a program that measures for us (`handed_on`). One that came while the program ended
by itself is raised before the next is started, or where the holding ends.

Only the main thread hears signals; in others all of this does nothing. Handlers are set again wherever one of these
begins: polars sets its own when it is imported, under which a read that waits is begun again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], None]


class _Unheard:
    """Whether someone has asked, and nothing was done about it."""

    asked = False

    def raise_it(self) -> None:
        if self.asked:
            self.asked = False
            raise KeyboardInterrupt

    def note(self, *_: object) -> None:
        self.asked = True


_unheard = _Unheard()


class HandedOn:
    """Signals that are handed on, the first of them: a second would end the program before it says what it has."""

    def __init__(self) -> None:
        self.asked = False
        """Whether there was one."""
        self._stop: Callable[[], object] | None = None

    def to(self, stop: Callable[[], object]) -> None:
        """Says what to do at a signal; at once, if it has come."""
        self._stop = stop
        if self.asked:
            stop()

    def hear(self, *_: object) -> None:
        """Takes a signal."""
        if not self.asked:
            self.asked = True
            if self._stop is not None:
                self._stop()

    def not_heard(self) -> None:
        """Says that the program had ended by itself: the next is not to be started."""
        _unheard.asked = self.asked


def raise_from_now_on() -> None:
    """Has both signals raise `KeyboardInterrupt`; for a command, once its libraries are imported."""
    for each in SIGNALS:
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, signal.default_int_handler)


def ignore_from_now_on() -> None:
    """For the end: all results are written, and the interpreter takes a while to go."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


@contextmanager
def raised() -> Iterator[None]:
    """They raise meanwhile, though they are held around it: nothing is measured yet that could be lost."""
    _unheard.raise_it()
    with _handled(signal.default_int_handler):
        yield


@contextmanager
def held(*, to_the_end: bool = False) -> Iterator[None]:
    """They wait until this is over, unless they are handed on to a program inside it.

    With `to_the_end` they are forgotten then: the command ends anyway.
    """
    with _handled(_unheard.note) as ours:
        try:
            yield
        except BaseException:
            # Whatever was going on has ended.
            _unheard.asked = _unheard.asked and not ours
            raise
    if ours and to_the_end:
        _unheard.asked = False
    elif ours:
        _unheard.raise_it()


@contextmanager
def handed_on() -> Iterator[HandedOn]:
    """They go to the program that is started inside; a held one is raised instead of starting it."""
    handed = HandedOn()
    with _handled(handed.hear) as ours:
        if ours:
            _unheard.raise_it()
        yield handed


@contextmanager
def _handled(handler: _Handler) -> Iterator[bool]:
    """False where signals cannot be handled, in threads."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    # A shell that runs us in the background has told us to ignore Ctrl-C; who uses us from a script of their own may
    # want kill to end it.
    ours = [each for each, was in before.items() if callable(was)]
    for each in ours:
        signal.signal(each, handler)
    try:
        yield True
    finally:
        for each in ours:
            signal.signal(each, before[each])
