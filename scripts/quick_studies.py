"""Runs every study at its smallest size: all points must be measured, the verdicts do not matter.

Figures of this size are not compared, so each point is measured once, and the studies first run side by side. A second
pass, with the ordinary command, runs them one after the other. It measures missing and failed points, and draws the
index.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sojourn.study import catalogue, document, scale
from sojourn.study.declarations import NONE
from sojourn.study.document import Study
from sojourn.systems.origins import LOCAL

SOJOURN = Path(sys.executable).parent / "sojourn"
AT_A_TIME = 4
"""The number of studies side by side: most of their time is starts of servers and loads of a given length."""
SMALLEST = ("--quick", "--repetitions", "1", "--format", "json")
SECONDS_MAX = 1800
"""The time limit of a command; one that takes longer hangs."""


def main() -> int:
    """Runs all studies; returns 1 if a point failed twice or a study did not reach its end."""
    with tempfile.TemporaryDirectory(prefix="sojourn-studies-") as folder:
        # Servers that change to another user must reach their sites.
        Path(folder).chmod(0o755)
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            for done in [threads.submit(side_by_side, name, folder) for name in longest_first()]:
                done.result()
        began = time.monotonic()
        every = subprocess.run(
            [SOJOURN, "study", "--all", *SMALLEST],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if not every.stdout:
            return every.returncode or 1
        print(f"all of them: {time.monotonic() - began:.1f} s")
        return 0 if all([summarised(study) for study in json.loads(every.stdout)["studies"]]) else 1


def longest_first() -> list[str]:
    """Returns the studies without a network of their own, because the addresses of two networks would conflict."""
    read = [document.read(path)[0].shortened() for path, _ in catalogue.studies()]
    unlinked = [study for study in read if not has_network(study)]
    # A long one that began last would run alone.
    return [study.name for study in sorted(unlinked, key=scale.whole_seconds, reverse=True)]


def has_network(study: Study) -> bool:
    """Whether its clients or its files are behind a link."""
    is_linked = study.workload is not None and study.workload.link != NONE
    return is_linked or any(system.origin != LOCAL for system in study.systems)


def side_by_side(name: str, folder: str) -> None:
    """Runs a study; failures are not final, because the second pass repeats them."""
    began = time.monotonic()
    # With --output it does not write the index, which several studies must not write at once.
    output = f"runs/study/{name}-quick"
    done = subprocess.run(
        [SOJOURN, "study", name, *SMALLEST, "--output", output],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    failed = json.loads(done.stdout)["studies"][0]["failed"] if done.stdout else {done.stderr.strip(): 1}
    again = f", to be tried again: {'; '.join(failed)}" if failed else ""
    print(f"{time.monotonic() - began:6.1f} s  {name}{again}", flush=True)


def summarised(study: dict[str, Any]) -> bool:
    """Prints the result of a study; returns true if all points that this machine can measure were measured."""
    if "because" in study:
        print(f"FAILED  {study['study']}: it could not run: {study['because']}")
        return False
    well = study["ending"] == "complete" and not study["failed"]
    said = [f"{study['points']} of {study['points_planned']} points"]
    said += [f"{system} is missing: {why}" for system, why in study["missing"].items()]
    said += [f"{count} failed: {why}" for why, count in study["failed"].items()]
    print(f"{'ok    ' if well else 'FAILED'}  {study['study']}: {'; '.join(said)}")
    return well


if __name__ == "__main__":
    sys.exit(main())
