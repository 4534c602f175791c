"""The generators: the command for a condition's load, and the request count that each one reports."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.load.conditions import CLIENTS, Condition
from benchmarks.machine import ROOT
from sojourn import engine

HTTPERF_REQUESTS_PER_SECOND = 40_000
"""httperf takes a number of requests, not a duration: this many for each second of the duration."""

AB_REQUESTS_MAX = 5_000_000


@dataclass(frozen=True)
class Task:
    """The task of a generator."""

    condition: Condition
    url: str
    seconds: float
    seed: int
    work: Path
    """A folder for files that a generator needs."""


@dataclass(frozen=True)
class Said:
    """A generator's report of its run; figures that it does not report are None."""

    requests: int
    errors: int
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    send_lag_p99_seconds: float | None = None
    limited_because: str | None = None


@dataclass(frozen=True)
class Generator:
    """A generator in one of its variants."""

    name: str
    program: Callable[[], str | None]
    takes: Callable[[Condition], bool]
    command: Callable[[str, Task], list[str]]
    read: Callable[[str], Said]


def generators() -> list[Generator]:
    """Returns all generators in the order of the tables: ours first."""
    return [
        Generator("sojourn", lambda: str(engine.path()), lambda _: True, _sojourn, _read_sojourn),
        Generator("wrk", _named("wrk"), _closed, _wrk, _read_wrk),
        Generator("h2load", _named("h2load"), _keeps_alive_closed, _h2load, _read_h2load),
        Generator("ab", _named("ab"), _closed, _ab, _read_ab),
        Generator("httperf", _named("httperf"), _closed, _httperf, _read_httperf),
        Generator("oha", _named("oha"), _knows_no_slack, _oha, _read_oha),
        Generator("k6", _named("k6"), _knows_no_slack, _k6, _read_k6),
    ]


def _named(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        folder = Path(os.environ.get("LOAD_PEERS", ROOT / "target" / "load-peers")) / "bin"
        return shutil.which(name, path=f"{folder}:{os.environ.get('PATH', '')}")

    return find


def _closed(condition: Condition) -> bool:
    return condition.rate is None and condition.think_seconds is None


def _knows_no_slack(condition: Condition) -> bool:
    return condition.think_seconds is None and condition.timer_slack is None


def _keeps_alive_closed(condition: Condition) -> bool:
    return _closed(condition) and condition.connection == "keep-alive"


def _seconds(task: Task) -> str:
    return f"{task.seconds:g}s"


def _sojourn(program: str, task: Task) -> list[str]:
    condition = task.condition
    who = ["--clients", str(condition.clients)]
    if condition.rate is not None:
        who = ["--rate", str(condition.rate), "--in-flight-max", str(condition.clients)]
    if condition.timer_slack is not None:
        who += ["--timer-slack", condition.timer_slack]
    if condition.think_seconds is not None:
        who += ["--think-time", f"{condition.think_seconds:g}s"]
    # It sleeps as the others do: the cost of polling does not belong to a request.
    options = ["--connection", condition.connection, "--wait", "sleep", "--seed", str(task.seed), "--format", "json"]
    settle = f"{condition.warm_up_seconds:g}s"
    return [program, "load", task.url, *who, "--duration", _seconds(task), "--warm-up", settle, *options]


def _read_sojourn(output: str) -> Said:
    result: dict[str, Any] = json.loads(output)
    response = result["response_time_seconds"]
    return Said(
        result["requests"],
        result["errors"],
        response["p50"],
        response["p99"],
        result["send_lag_seconds"]["p99"],
        result["generator"]["limited_because"],
    )


def _wrk(program: str, task: Task) -> list[str]:
    close = ["--header", "Connection: close"] if task.condition.connection == "close" else []
    load = [
        "--threads",
        "1",
        "--connections",
        str(task.condition.clients),
        "--duration",
        f"{max(1, task.seconds):.0f}s",
    ]
    return [program, *load, *close, "--latency", task.url]


def _read_wrk(output: str) -> Said:
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    failed = sum(map(int, errors.groups())) if errors else 0
    return Said(
        _count(r"(\d+) requests in", output),
        failed + (int(wrong[1]) if wrong else 0),
        _time(r"50%\s+([\d.]+)(us|ms|s)", output),
        _time(r"99%\s+([\d.]+)(us|ms|s)", output),
    )


def _h2load(program: str, task: Task) -> list[str]:
    load = ["--threads=1", f"--clients={task.condition.clients}", f"--duration={max(1, task.seconds):.0f}"]
    return [program, "--h1", *load, task.url]


def _read_h2load(output: str) -> Said:
    return Said(_count(r"(\d+) succeeded", output), _count(r"(\d+) failed", output))


def _ab(program: str, task: Task) -> list[str]:
    keep = ["-k"] if task.condition.connection == "keep-alive" else []
    # The last option wins: the time limit alone implies a limit of 50,000 requests. It keeps each one in memory.
    limit = ["-c", str(task.condition.clients), "-t", f"{max(1, task.seconds):.0f}", "-n", str(AB_REQUESTS_MAX)]
    return [program, "-q", *limit, *keep, task.url]


def _read_ab(output: str) -> Said:
    return Said(_count(r"Complete requests:\s+(\d+)", output), _count(r"Failed requests:\s+(\d+)", output))


def _httperf(program: str, task: Task) -> list[str]:
    address = urlsplit(task.url)
    clients, requests = task.condition.clients, max(1, int(HTTPERF_REQUESTS_PER_SECOND * task.seconds))
    server = ["--server", str(address.hostname), "--port", str(address.port), "--uri", address.path or "/", "--hog"]
    if task.condition.connection == "close":
        # A connection per call; its only closed loop has a single client.
        return [program, *server, "--num-conns", str(requests // 10), "--num-calls", "1"]
    # All connections start at once, and each continues by itself.
    calls = ["--num-conns", str(clients), "--num-calls", str(requests // clients), "--rate", str(100 * clients)]
    return [program, *server, *calls]


def _read_httperf(output: str) -> Said:
    return Said(_count(r"Total: .*replies (\d+)", output), _count(r"Errors: total (\d+)", output))


def _oha(program: str, task: Task) -> list[str]:
    condition = task.condition
    options = ["--no-tui", "--output-format", "json", "-z", _seconds(task), "-c", str(condition.clients)]
    if condition.rate is not None:
        options += ["-q", str(condition.rate), "--latency-correction"]
    if condition.connection == "close":
        options.append("--disable-keepalive")
    return [program, *options, task.url]


def _read_oha(output: str) -> Said:
    result: dict[str, Any] = json.loads(output)
    good = sum(count for code, count in result["statusCodeDistribution"].items() if code.startswith("2"))
    # Requests that it cuts off at the end are not failures.
    errors = {why: count for why, count in result["errorDistribution"].items() if "deadline" not in why}
    percentiles = result["latencyPercentiles"]
    return Said(good, sum(errors.values()), percentiles["p50"], percentiles["p99"])


def _k6(program: str, task: Task) -> list[str]:
    condition = task.condition
    load = {"executor": "constant-vus", "vus": condition.clients, "duration": _seconds(task)}
    if condition.rate is not None:
        load = {
            "executor": "constant-arrival-rate",
            "rate": condition.rate,
            "timeUnit": "1s",
            "duration": _seconds(task),
            "preAllocatedVUs": condition.clients,
        }
    options = {"scenarios": {"load": load}, "noConnectionReuse": condition.connection == "close"}
    options["summaryTrendStats"] = ["med", "p(99)"]
    script = task.work / "load.js"
    script.write_text(
        f"import http from 'k6/http';\nexport const options = {json.dumps(options)};\n"
        f"export default function () {{ http.get({json.dumps(task.url)}); }}\n"
        "export function handleSummary(data) { return { stdout: JSON.stringify(data) }; }\n"
    )
    return [program, "run", "--quiet", "--no-usage-report", "--address", "", str(script)]


def _read_k6(output: str) -> Said:
    metrics: dict[str, Any] = json.loads(output)["metrics"]
    failed = int(metrics["http_req_failed"]["values"]["passes"])
    duration = metrics["http_req_duration"]["values"]
    requests = int(metrics["http_reqs"]["values"]["count"])
    return Said(requests - failed, failed, duration["med"] / 1e3, duration["p(99)"] / 1e3)


def _count(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    if found is None:
        raise ValueError(f"no {pattern} in the output")
    return int(found[1])


def _time(pattern: str, output: str) -> float | None:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    found = re.search(pattern, output)
    return float(found[1]) * units[found[2]] if found else None


def clients_of(conditions: Sequence[Condition]) -> int:
    """Returns the largest number of connections that a condition needs."""
    return max((condition.clients for condition in conditions), default=CLIENTS)
