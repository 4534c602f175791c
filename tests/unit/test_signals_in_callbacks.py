"""Ctrl-C where Python would drop it."""

from __future__ import annotations

import subprocess
import sys

DROPPED = """
import gc, signal, sys, time
from sojourn import interrupts

# A program that a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.raise_from_now_on()

def collected(phase, info):
    gc.callbacks.clear()
    signal.raise_signal(signal.SIGINT)
    for _ in range(1000):
        pass
    sys.exit("the signal did not come within the callback")

gc.callbacks.append(collected)
try:
    gc.collect()
    time.sleep(20)
except KeyboardInterrupt:
    print("heard")
"""


def test_ctrl_c_within_a_callback_of_the_garbage_collector_is_heard() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=15, check=False)
    assert (done.stdout, done.stderr) == ("heard\n", "")
