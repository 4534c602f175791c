"""A program whose time passes in steps: it sleeps for as long as time has passed, and ends with its controller."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import SOJOURN

ENGINE = SOJOURN.with_name("sojourn-engine")
LIMIT_SECONDS = 60
ABORTED = 134

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="virtual time needs x86-64")


@contextmanager
def sleeping(seconds: int) -> Iterator[subprocess.Popen[str]]:
    core = str(max(os.sched_getaffinity(0)))
    command = [str(ENGINE), "virtual-time", "--core", core, "--steps", "--", "sleep", str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(LIMIT_SECONDS)


def passed(process: subprocess.Popen[str], time: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{time}\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_an_hour_is_slept_as_soon_as_it_has_passed() -> None:
    with sleeping(3600) as process:
        assert passed(process, "3599s") == "3599.000000\n"
        assert process.poll() is None
        assert passed(process, "500ms") == "3599.500000\n"
        assert passed(process, "501ms") == "", "it ended on the way"
        assert process.wait(LIMIT_SECONDS) == 0


def test_it_ends_when_nobody_is_left_to_say_how_time_passes() -> None:
    with sleeping(3600) as process:
        assert passed(process, "1s") == "1.000000\n"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT_SECONDS) == ABORTED
