"""Receives the RTP packets of all viewers in its own thread, counts and discards them."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from types import TracebackType

from sojourn.failure import CouldNotRun
from sojourn.systems.server import LOOPBACK

RECEIVE_BUFFER_BYTES = 1 << 20
_HEADER = struct.Struct("!BBHII")
_DATAGRAM_BYTES_MAX = 1 << 16
_PAIRS_TRIED_MAX = 1000
_QUIET_SECONDS = 0.05
_LOOK_SECONDS = 0.02


class Received:
    """The packets received on one track."""

    def __init__(self, clock: int) -> None:
        self.packets = 0
        self.bytes = 0
        self._clock = clock
        self._first: tuple[int, int] | None = None
        self._ahead = 0
        self._ticks = 0

    def take(self, datagram: bytes) -> None:
        """Counts a packet; ignores anything else."""
        if len(datagram) < _HEADER.size:
            return
        _, _, sequence, stamp, _ = _HEADER.unpack_from(datagram)
        self.packets += 1
        self.bytes += len(datagram)
        if self._first is None:
            self._first = (sequence, stamp)
        # Both wrap; a sequence number in the half behind is older.
        ahead = (sequence - self._first[0] - self._ahead) & 0xFFFF
        self._ahead += ahead if ahead < 1 << 15 else 0
        ticks = (stamp - self._first[1] - self._ticks) & 0xFFFF_FFFF
        self._ticks += ticks if ticks < 1 << 31 else 0

    @property
    def seconds(self) -> float:
        """The time from the first to the latest packet, by timestamps."""
        return self._ticks / self._clock

    @property
    def lost(self) -> int:
        """Missing sequence numbers."""
        return 0 if self._first is None else self._ahead + 1 - self.packets


class Receiver:
    """A thread that receives all packets."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._reports = list[socket.socket]()
        self._ends = False
        self._read = 0
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends = True
        self._thread.join()
        sockets = [key.fileobj for key in self._selector.get_map().values()]
        for each in [*sockets, *self._reports]:
            if isinstance(each, socket.socket):
                each.close()
        self._selector.close()

    def open(self, clock: int) -> tuple[int, Received]:
        """Opens a port for a track, and the next one for its reports; returns the port and the track's counts."""
        for _ in range(_PAIRS_TRIED_MAX):
            packets, reports = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
            packets.bind((LOOPBACK, 0))
            port = packets.getsockname()[1]
            try:
                if port % 2:
                    raise OSError("RTP comes to an even port")
                reports.bind((LOOPBACK, port + 1))
            except OSError:
                packets.close()
                reports.close()
                continue
            packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            received = Received(clock)
            self._reports.append(reports)
            self._selector.register(packets, selectors.EVENT_READ, received)
            return port, received
        raise CouldNotRun(f"no pair of UDP ports is free on {LOOPBACK}", "end what has them, or take fewer viewers")

    def wait_until_read(self) -> None:
        """Waits until all packets sent so far are read."""
        before = -1
        while before != self._read:
            before = self._read
            time.sleep(_QUIET_SECONDS)

    def _receive(self) -> None:
        while not self._ends:
            for key, _ in self._selector.select(_LOOK_SECONDS):
                assert isinstance(key.fileobj, socket.socket)
                key.data.take(key.fileobj.recv(_DATAGRAM_BYTES_MAX))
                self._read += 1
