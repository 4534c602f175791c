"""Builds the Rust tests and runs them, several modules at a time; repeats failed modules once, alone.

A crate has one program of integration tests, linked once. Each of its modules runs in a process of its own, so that a
failed module can be repeated alone. Most tests wait for clocks and servers, so three run side by side, and one that
computes beside them. Standard output names the modules that passed only alone. The exit code is 1 if a module failed
twice, and Cargo's code if the build failed.
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
from dataclasses import dataclass, replace
from pathlib import Path

INTEGRATION = "integration"
"""The name of the program of integration tests of each crate."""
ROOT = Path(__file__).parent.parent
PROFILE = os.environ.get("SOJOURN_PROFILE", "dev")
"""The Cargo profile; continuous integration has one for all."""
BUILD = ["cargo", "test", "--locked", "--workspace", "--profile", PROFILE, "--no-run"]
BUILD += ["--message-format", "json-render-diagnostics"]
AT_A_TIME = 3
"""The number of processes at a time; each runs as many of its tests at a time as there are cores."""
COMPUTING = ("-p sojourn-queueing ", "-p sojourn-fuzz-checks --test integration mutations")
"""Tests that compute for a minute, and wait for nothing. They run one after the other beside the others, which mostly
wait, and at a lower priority, so that whoever wakes up by a clock has a core.
"""
LOWER_PRIORITY = ("nice", "-n", "10")
PROCESS_SECONDS_MAX = 900
"""The time limit of a process; one that takes longer hangs."""


@dataclass(frozen=True)
class Tests:
    """The tests of a target of a package, or of one module of its integration tests."""

    name: str
    """The name in the options of Cargo and of the program."""
    executable: str
    folder: Path
    chosen: tuple[str, ...] = ()
    """The full names of the tests; all if empty."""

    @property
    def computes(self) -> bool:
        return self.name.startswith(COMPUTING)

    def run(self) -> bool:
        """Returns true if they pass; prints the result, and all output if they fail."""
        began = time.monotonic()
        # Into a file, because a server that a test left behind would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    [
                        *(LOWER_PRIORITY if self.computes else ()),
                        *(self.executable, "--quiet"),
                        *(("--exact", *self.chosen) if self.chosen else ()),
                    ],
                    cwd=self.folder,
                    env={**os.environ, "CARGO_MANIFEST_DIR": str(self.folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=PROCESS_SECONDS_MAX,
                    check=False,
                )
                passed = done.returncode == 0
            except subprocess.TimeoutExpired:
                passed = False
                output.write(f"\nnot ended after {PROCESS_SECONDS_MAX} s\n".encode())
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
    """Builds and runs the tests, and repeats those that failed."""
    built = subprocess.run(BUILD, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        return built.returncode
    everything = [part for program in programs(built.stdout) for part in parts(program)]
    with ThreadPoolExecutor(1) as computing, ThreadPoolExecutor(AT_A_TIME) as waiting:
        running = [(computing if tests.computes else waiting).submit(tests.run) for tests in everything]
        failed = [tests for tests, done in zip(everything, running, strict=True) if not done.result()]
    if failed:
        talk(f"\nonce more, alone: {len(failed)} of {len(everything)}")
    passed_alone = [tests for tests in failed if tests.run()]
    for tests in passed_alone:
        print(tests.name)
    return 1 if len(passed_alone) < len(failed) else 0


def programs(messages: str) -> Iterator[Tests]:
    """Returns the test programs named in Cargo's messages."""
    for message in map(json.loads, messages.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            manifest = Path(message["manifest_path"])
            package = tomllib.loads(manifest.read_text())["package"]["name"]
            kind, name = message["target"]["kind"][0], message["target"]["name"]
            target = f"--{kind} {name}" if kind in ("bin", "test", "example", "bench") else "--lib"
            yield Tests(f"-p {package} {target}", message["executable"], manifest.parent)


def parts(program: Tests) -> list[Tests]:
    """Returns the modules of a program of integration tests, each with its tests; any other program as it is."""
    if not program.name.endswith(f"--test {INTEGRATION}"):
        return [program]
    command = [program.executable, "--list", "--format", "terse"]
    listed = subprocess.run(command, cwd=program.folder, stdout=subprocess.PIPE, text=True, check=True)
    modules: dict[str, list[str]] = {}
    for line in listed.stdout.splitlines():
        test, _, kind = line.rpartition(": ")
        if kind == "test":
            modules.setdefault(test.rpartition("::")[0], []).append(test)
    return [replace(program, name=f"{program.name} {module}", chosen=tuple(tests)) for module, tests in modules.items()]


def talk(text: str) -> None:
    """Prints a message in one write, so that lines of two programs do not mix."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
