"""Builds the Rust tests and runs their programs, three at a time; what fails is run once more, with nothing beside it.

Cargo runs test programs one after the other, though most of them wait for clocks and servers. Those that passed only
alone are named on standard output. Ends with 1 if something failed twice, with Cargo's code if it did not build.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]
AT_A_TIME = 3
"""Programs; each runs as many of its tests at a time as there are cores."""
PROGRAM_SECONDS_MAX = 900
"""Of one program: what takes longer hangs."""


@dataclass(frozen=True)
class TestProgram:
    """The tests of one target of a package."""

    name: str
    """As Cargo's options name it."""
    executable: str
    folder: Path

    def run(self) -> bool:
        """Whether its tests pass; says so, with all that it printed if not."""
        began = time.monotonic()
        # Into a file: a server that a test left behind would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    [self.executable, "--quiet"],
                    cwd=self.folder,
                    env={**os.environ, "CARGO_MANIFEST_DIR": str(self.folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=PROGRAM_SECONDS_MAX,
                    check=False,
                )
                passed = done.returncode == 0
            except subprocess.TimeoutExpired:
                passed = False
                output.write(f"\nnot ended after {PROGRAM_SECONDS_MAX} s\n".encode())
            output.seek(0)
            text = output.read().decode(errors="replace")
        counted = re.search(r"^test result: \w+\. (.*? failed)", text, re.MULTILINE)
        said = "ok    " if passed else "FAILED"
        seconds = time.monotonic() - began
        talk(f"{said} {seconds:6.1f} s  {self.name}: {counted[1] if counted else 'it did not come to its end'}")
        if not passed:
            talk(text)
        return passed


def main() -> int:
    """Builds, runs, runs again what failed."""
    built = subprocess.run(BUILD, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        return built.returncode
    programs = list(found(built.stdout))
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        passed = list(threads.map(TestProgram.run, programs))
    failed = [program for program, well in zip(programs, passed, strict=True) if not well]
    if failed:
        talk(f"\nonce more, alone: {len(failed)} of {len(programs)}")
    passed_alone = [program for program in failed if program.run()]
    for program in passed_alone:
        print(program.name)
    return 1 if len(passed_alone) < len(failed) else 0


def found(messages: str) -> Iterator[TestProgram]:
    """The test programs of which Cargo's messages tell."""
    for message in map(json.loads, messages.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            manifest = Path(message["manifest_path"])
            package = tomllib.loads(manifest.read_text())["package"]["name"]
            kind, name = message["target"]["kind"][0], message["target"]["name"]
            target = f"--{kind} {name}" if kind in ("bin", "test", "example", "bench") else "--lib"
            yield TestProgram(f"-p {package} {target}", message["executable"], manifest.parent)


def talk(text: str) -> None:
    """To people: one write, so that lines of two programs do not mix."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
