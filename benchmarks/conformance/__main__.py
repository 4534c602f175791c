"""`benchmarks/conformance/bench`: the suite's client, a caching proxy, the suite's origin; counts results by kind.

The suite itself judges: a test is neither passed nor failed if its setup or a test that it depends on has failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine
from sojourn import systems
from sojourn.failure import EXIT_RAN, EXIT_RAN_WITH_FAILURES, CouldNotRun
from sojourn.systems.running import start_process, wait_until

NAME = "cache-conformance"
HERE = Path(__file__).parent
INSTALLED = machine.ROOT / "target" / "conformance" / "node_modules"
ORIGIN_SAYS = "Listening on "
TIME_LIMIT_SECONDS = 600
NOTEWORTHY = ("failed", "not done", "setup failed", "harness failed", "retried")
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
    names: Annotated[str, typer.Option("--systems", help="Proxies, with commas between.")] = "sojourn-proxy",
    architecture: Annotated[str, typer.Option(help="Of our own.")] = "amped",
    output: Annotated[Path, typer.Option(help="The run's folder.")] = machine.ROOT / "runs" / NAME,
) -> None:
    """Run http-cache-tests against caching proxies, and count the results.

    Example: benchmarks/conformance/peers && benchmarks/conformance/bench --systems sojourn-proxy,squid
    """
    suite = INSTALLED / "http-cache-tests"
    if not suite.is_dir():
        raise CouldNotRun(f"{suite} is not there", "run benchmarks/conformance/peers")
    chosen = [systems.find(name) for name in names.split(",")]
    output.mkdir(parents=True, exist_ok=True)
    code = EXIT_RAN
    for system in chosen:
        try:
            version, judged = _measure(suite, system, architecture)
        except CouldNotRun as failure:
            talk.print(f"{system.name}: {failure.said}", highlight=False)
            code = EXIT_RAN_WITH_FAILURES
            continue
        (output / f"{system.name}.json").write_text(json.dumps(judged, indent=1) + "\n")
        print(f"{system.name} {version}")
        counts = Counter((each["kind"], OUTCOMES[each["symbol"]]) for each in judged)
        for (kind, outcome), count in sorted(counts.items()):
            print(f"  {kind:9} {outcome:17} {count}")
        for each in judged:
            if (outcome := OUTCOMES[each["symbol"]]) in NOTEWORTHY:
                talk.print(f"{each['kind']} {outcome}: {each['test']}: {each['said']}", highlight=False)
    sys.exit(code)


def _measure(suite: Path, system: systems.Server, architecture: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the system's version and the suite's results, with an origin of its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        said = work / "origin.log"
        # The suite reads the variables that npm sets; the kernel still chooses the port.
        settings = ["npm_config_protocol=http", "npm_config_port=0", "npm_config_pidfile=/dev/null"]
        origin = start_process(["env", *settings, "node", str(HERE / "origin.mjs"), str(suite)], said)
        try:
            wait_until(lambda: ORIGIN_SAYS in said.read_text(), origin, "the suite's origin", said)
            upstream = said.read_text().split(ORIGIN_SAYS)[1].split()[0].rstrip("/")
            launch = systems.Launch(work, work, None, architecture, upstream=upstream)
            with system.start(launch) as running:
                return running.version, _judge(suite, running.url)
        finally:
            origin.terminate()
            origin.wait()


def _judge(suite: Path, base: str) -> list[dict[str, Any]]:
    command = ["node", "--no-warnings", str(HERE / "judge.mjs"), str(suite), str(INSTALLED / "node-fetch"), base]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False)
    if done.returncode:
        raise CouldNotRun(f"the suite ended with {done.returncode}: {done.stderr.strip()}", "run peers again")
    judged: list[dict[str, Any]] = json.loads(done.stdout)
    return judged


if __name__ == "__main__":
    command_line.run(_bench)
