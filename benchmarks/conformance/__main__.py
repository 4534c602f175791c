"""`benchmarks/conformance/bench`: the suite's origin, our proxy before it, the suite's client; counts by kind.

The suite judges: a test whose setup failed, or one that it depends on, is neither passed nor failed.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import entry, machine
from sojourn.failure import EXIT_RAN, CouldNotRun

NAME = "cache-conformance"
HERE = Path(__file__).parent
INSTALLED = machine.ROOT / "target" / "conformance" / "node_modules"
TIME_LIMIT_SECONDS = 600
talk = Console(stderr=True)

OUTCOMES = {
    "✅": "passed",
    "Y": "yes",
    "⛔️": "failed",
    "⚠️": "not done",
    "N": "no",
    "🔹": "setup failed",
    "⁉️": "harness failed",
    "⚪️": "dependency failed",
    "↻": "retried",
    "-": "untested",
}


def _bench(
    options: Annotated[str, typer.Option(help="More options of sojourn proxy.")] = "",
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
) -> None:
    """Run http-cache-tests against `sojourn proxy`, and count.

    Example: benchmarks/conformance/peers && benchmarks/conformance/bench
    """
    suite = INSTALLED / "http-cache-tests"
    if not suite.is_dir():
        raise CouldNotRun(f"{suite} is not there", "run benchmarks/conformance/peers")
    with _origin(suite) as address, _proxy(address, shlex.split(options)) as proxy:
        judged = _judge(suite, f"http://{proxy}")
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(judged, indent=1) + "\n")
    counts = Counter((each["kind"], OUTCOMES[each["symbol"]]) for each in judged)
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:9} {outcome:17} {count}")
    for each in judged:
        if OUTCOMES[each["symbol"]] in ("failed", "not done", "setup failed", "harness failed", "retried"):
            talk.print(f"{each['kind']} {OUTCOMES[each['symbol']]}: {each['test']}: {each['said']}", highlight=False)
    sys.exit(EXIT_RAN)


def _judge(suite: Path, base: str) -> list[dict[str, Any]]:
    command = ["node", "--no-warnings", str(HERE / "judge.mjs"), str(suite), str(INSTALLED / "node-fetch"), base]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False)
    if done.returncode:
        raise CouldNotRun(f"the suite ended with {done.returncode}: {done.stderr.strip()}", "run peers again")
    judged: list[dict[str, Any]] = json.loads(done.stdout)
    return judged


@contextmanager
def _origin(suite: Path) -> Iterator[str]:
    """The suite's origin; yields its address."""
    environment = {"npm_config_protocol": "http", "npm_config_port": "0", "npm_config_pidfile": "/dev/null"}
    with _started(["node", str(HERE / "origin.mjs"), str(suite)], environment, "Listening on http://") as address:
        yield address


@contextmanager
def _proxy(origin: str, options: list[str]) -> Iterator[str]:
    """Our proxy before it; yields its address."""
    engine = str(machine.ROOT / ".venv" / "bin" / "sojourn-engine")
    command = [engine, "proxy", "--listen", "127.0.0.1:0", "--upstream", f"http://{origin}", *options]
    with _started(command, {}, "listening on ") as address:
        yield address


@contextmanager
def _started(command: list[str], environment: dict[str, str], mark: str) -> Iterator[str]:
    """A program that says its address behind `mark`; it is ended at the end."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            if line.startswith(mark):
                break
            said.append(line)
        else:
            raise CouldNotRun(f"{shlex.join(command)} did not start: {''.join(said).strip()}")
        # What it says later must not fill the pipe.
        Thread(target=process.stdout.read, daemon=True).start()
        yield line.removeprefix(mark).strip().rstrip("/")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    entry.run(_bench)
