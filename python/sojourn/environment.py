"""The environment a run was measured in: figures without it are not comparable."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from sojourn import __version__


def describe() -> dict[str, Any]:
    """The machine, its kernel settings and our build; what cannot be read says so."""
    return {
        "sojourn_version": __version__,
        "python_version": platform.python_version(),
        "processor": _processor(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "operating_system": _first_line("/etc/os-release", "PRETTY_NAME="),
        "virtualised": "hypervisor" in Path("/proc/cpuinfo").read_text(),
        "frequency_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt_siblings_of_core_0": _read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"),
        "congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "default_qdisc": _read("/proc/sys/net/core/default_qdisc"),
        "listen_backlog_limit": _read("/proc/sys/net/core/somaxconn"),
        "port_range": _read("/proc/sys/net/ipv4/ip_local_port_range"),
        "transparent_huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "hardware_counters": "available"
        if Path("/sys/bus/event_source/devices/cpu").exists()
        else "unavailable: the kernel shows no cpu event source",
    }


def _processor() -> str:
    return _first_line("/proc/cpuinfo", "model name") or platform.processor() or "unavailable: not in /proc/cpuinfo"


def _caches() -> list[str]:
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(str(index / name)) for name in ("level", "type", "size"))
        caches.append(f"L{level} {kind} {size}")
    return caches


def _first_line(path: str, prefix: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    line = next((line for line in lines if line.startswith(prefix)), None)
    return line and line[len(prefix) :].lstrip("\t :=").strip('"')


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        return f"unavailable: {error.strerror}"
