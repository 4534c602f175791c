"""A child that does known amounts of work when told to, and says by the kernel's own account what it used.

    python known_child.py [faults PAGES] [spin SECONDS] [sleep TIMES] [fork TIMES SECONDS] [forget TIMES SECONDS]

It waits for a line, works, writes one JSON object, and waits for the end of its input.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import sys
import time


def main(words: list[str]) -> None:
    sys.stdin.readline()
    while words:
        match words:
            case ["faults", pages, *words]:
                touch(int(pages))
            case ["spin", seconds, *words]:
                spin(float(seconds))
            case ["sleep", times, *words]:
                for _ in range(int(times)):
                    time.sleep(0.002)
            case ["fork", times, seconds, *words]:
                for _ in range(int(times)):
                    os.waitpid(child_that_spins(float(seconds)), 0)
            case ["forget", times, seconds, *words]:
                # The kernel then waits for them itself, and forgets what they used.
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                for _ in range(int(times)):
                    child_that_spins(float(seconds))
                    time.sleep(float(seconds))
                while os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children") and children():
                    time.sleep(0.01)
            case [other, *_]:
                sys.exit(f"what is {other}?")
    own, waited_for = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    used = {
        "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in (own, waited_for)),
        "minor_faults": own.ru_minflt + waited_for.ru_minflt,
        "voluntary_switches": own.ru_nvcsw,
    }
    print(json.dumps(used), flush=True)
    sys.stdin.readline()


def touch(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        # One fault each: no huge page may save any.
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


def spin(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def child_that_spins(seconds: float) -> int:
    pid = os.fork()
    if pid == 0:
        spin(seconds)
        os._exit(0)
    return pid


def children() -> bool:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return bool(file.read().split())


if __name__ == "__main__":
    main(sys.argv[1:])
