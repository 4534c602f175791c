"""Handles Ctrl-C, kill and the end of the terminal: all ask a command to end and to keep its results.

They raise `KeyboardInterrupt` where nothing would be lost (`raise_from_now_on`, `raised`), are deferred where
something would be (`held`), and are forwarded to a child program that measures (`handed_on`). A signal that arrives
just as the child ends by itself is raised before the next child starts, or when deferral ends.

Python delivers signals to the main thread only; in other threads all of this does nothing. Each of these functions
installs its handlers anew, because polars installs its own when it is imported, under which an interrupted read
restarts.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from sojourn.failure import EXIT_RAN_WITH_FAILURES

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED = 128 + signal.SIGINT
"""The exit code that shells use after Ctrl-C, where nothing had begun."""
AGAIN_SECONDS = 0.05
"""After this, a signal is sent again whose exception was dropped: the callback has ended by then."""
_Handler = Callable[[int, FrameType | None], None]


class _Unheard:
    """Records a signal that nothing has handled yet."""

    asked = False

    def raise_it(self) -> None:
        if self.asked:
            self.asked = False
            raise KeyboardInterrupt

    def note(self, *_: object) -> None:
        self.asked = True


_unheard = _Unheard()


class HandedOn:
    """Forwards the first signal only: a second would kill the program before it reports its results."""

    def __init__(self) -> None:
        self.asked = False
        """Whether there was one."""
        self._stop: Callable[[], object] | None = None

    def to(self, stop: Callable[[], object]) -> None:
        """Sets the function that a signal calls; calls it at once if the signal has already come."""
        self._stop = stop
        if self.asked:
            stop()

    def hear(self, *_: object) -> None:
        if not self.asked:
            self.asked = True
            if self._stop is not None:
                self._stop()

    def not_heard(self) -> None:
        """Records that the program had already ended by itself, so that the next one is not started."""
        _unheard.asked = self.asked


class _Start:
    """Records whether a signal came before anything was measured."""

    prevented = False


_start = _Start()


class _Terminal:
    """Records whether the terminal was closed."""

    is_gone = False


_terminal = _Terminal()


@contextmanager
def preparing() -> Iterator[None]:
    """Marks work that only prepares a measurement: a signal meanwhile ends the command as one before it began does."""
    try:
        yield
    except KeyboardInterrupt:
        _start.prevented = True
        raise


def exit_code() -> int:
    """The exit code of a command that a signal has ended."""
    return EXIT_INTERRUPTED if _start.prevented else EXIT_RAN_WITH_FAILURES


def end_at_once(*_: object) -> NoReturn:
    """Ends the program. A handler for while nothing has begun.

    A `KeyboardInterrupt` could strike anywhere inside an import.
    """
    with suppress(OSError):
        os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


@contextmanager
def importing() -> Iterator[None]:
    """Ends the program at once if a signal comes while a command imports its libraries."""
    with _handled(end_at_once):
        yield


def raise_from_now_on() -> None:
    """Lets the signals raise `KeyboardInterrupt`. Commands call this once their libraries are imported."""
    sys.unraisablehook = _raised_again
    for each in SIGNALS:
        if signal.getsignal(each) != signal.SIG_IGN:
            _install(each, signal.default_int_handler)


def _raised_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Sends the signal again if its exception was dropped.

    Python drops what is raised in a finalizer, or in a callback of the garbage collector, such as Dask has.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def ignore_from_now_on() -> None:
    """Ignores the signals after all results are written, while the interpreter shuts down."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def raise_unheard() -> None:
    """Raises a signal that came while a program ended by itself. Call it before work that starts no such program."""
    _unheard.raise_it()


@contextmanager
def raised() -> Iterator[None]:
    """Lets signals raise within an enclosing `held`, while nothing measured could be lost."""
    _unheard.raise_it()
    with _handled(signal.default_int_handler):
        yield


@contextmanager
def held(*, to_the_end: bool = False) -> Iterator[None]:
    """Defers signals until the block ends, unless they are forwarded to a program inside it.

    With `to_the_end` they are dropped then, because the command ends anyway.
    """
    with _handled(_unheard.note) as ours:
        try:
            yield
        except BaseException:
            # The interrupted work has ended.
            _unheard.asked = _unheard.asked and not ours
            raise
    if ours and to_the_end:
        _unheard.asked = False
    elif ours:
        _unheard.raise_it()


@contextmanager
def handed_on() -> Iterator[HandedOn]:
    """Forwards signals to the program started in the block; a deferred signal is raised instead of starting it."""
    handed = HandedOn()
    with _handled(handed.hear) as ours:
        if ours:
            _unheard.raise_it()
        yield handed


@contextmanager
def _handled(handler: _Handler) -> Iterator[bool]:
    """Yields false where signals cannot be handled, in threads."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    # A shell that runs the command in the background has set it to ignore Ctrl-C, and a script that imports the package
    # may want kill to end it.
    ours = [each for each, was in before.items() if callable(was)]
    for each in ours:
        _install(each, handler)
    try:
        yield True
    finally:
        for each in ours:
            signal.signal(each, before[each])


def _install(each: signal.Signals, handler: _Handler) -> None:
    def without_terminal(number: int, frame: FrameType | None) -> None:
        # The shell says it, and the kernel when the shell has ended.
        if not _terminal.is_gone:
            _print_nowhere()
            handler(number, frame)

    signal.signal(each, without_terminal if each == signal.SIGHUP else handler)


def _print_nowhere() -> None:
    """Where the terminal is gone, printing would fail, and what is to be done after it would not be done."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        if _has_hung_up(stream):
            _terminal.is_gone = True
            os.dup2(nowhere, stream)
    os.close(nowhere)


def _has_hung_up(stream: int) -> bool:
    try:
        termios.tcgetattr(stream)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
