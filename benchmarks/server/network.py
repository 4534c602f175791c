"""A network per cell: a namespace with only a loopback interface, and one congestion control for all.

A cell may leave 100,000 connections in TIME_WAIT, or metrics of a path in the kernel, which would make the next cell
more expensive. Few servers let you choose their congestion control, so the kernel's default is set, in the namespace
alone: nothing has to be restored, even after a crash, and other programs' connections do not change.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from sojourn.failure import CouldNotRun

CLONE_NEWNET = 0x40000000
# linux/sockios.h, linux/if.h
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
_REQUEST = "16sh14x"
_SETTINGS = Path("/proc/sys/net/ipv4")


def enter_own(congestion_control: str) -> None:
    """Moves this thread, and what it will start, to a new network namespace; its old one ends with its sockets.

    Raises:
        CouldNotRun: it is not permitted, or the kernel lacks this congestion control, or lacks it in other networks.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise CouldNotRun(
            f"cannot make a network namespace: {reason}",
            "run it as root, or with --congestion-control system to measure with the system's own",
        )
    _bring_loopback_up()
    available = (_SETTINGS / "tcp_available_congestion_control").read_text().split()
    if congestion_control not in available:
        raise CouldNotRun(
            f"the kernel has no congestion control {congestion_control}", f"one of {', '.join(available)}"
        )
    allowed = (_SETTINGS / "tcp_allowed_congestion_control").read_text().split()
    if congestion_control not in allowed:
        everything = " ".join([*allowed, congestion_control])
        raise CouldNotRun(
            f"the kernel keeps congestion control {congestion_control} to the machine's own network",
            f"sysctl -w net.ipv4.tcp_allowed_congestion_control='{everything}', or choose {' or '.join(allowed)}",
        )
    (_SETTINGS / "tcp_congestion_control").write_text(congestion_control)


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack(_REQUEST, b"lo", 0))
        flags = struct.unpack(_REQUEST, answer)[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack(_REQUEST, b"lo", flags | IFF_UP))
