"""Compares k6 and Locust with ours on one application: the same requests at the same rate, and what each reports."""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.failure import CouldNotRun

SOJOURN = Path(sys.executable).parent / "sojourn"
PERCENTILES = (0.5, 0.95, 0.99)
PATHS = (
    "/",
    "/category/lamps",
    "/category/chairs?sort=price",
    "/search?q=lamp",
    "/search?q=oak%20table",
    *(f"/api/products/{number}" for number in range(1, 20)),
)
RATE, SECONDS, REPETITIONS = 100.0, 8.0, 3


@dataclass(frozen=True)
class Said:
    """A tool's report of a run."""

    tool: str
    requests_per_second: float
    failures: int
    seconds: Mapping[float, float]
    """Percentiles of the response time."""
    cpu_seconds: float
    """CPU time of the tool itself."""


def measure(url: str, paths: Sequence[str], peers: Path) -> list[Said]:
    """Measures each tool in turn, in every repetition."""
    found = []
    for _ in range(REPETITIONS):
        for run in (_ours, _k6, _locust):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found.append(run(url, paths, RATE, SECONDS, peers, Path(folder)))
                except CouldNotRun as failure:
                    print(f"left out: {failure.said}", file=sys.stderr)
    return found


def table(found: Sequence[Said]) -> str:
    """Returns a line per tool: the median over repetitions, with the lowest and the highest."""
    lines = ["| | requests/s | failed | p50 | p95 | p99 | its CPU time, s |", "|---|---|---|---|---|---|---|"]
    for tool in dict.fromkeys(each.tool for each in found):
        runs = [each for each in found if each.tool == tool]
        cells = [_spread([each.requests_per_second for each in runs], "{:.1f}")]
        cells.append(str(sum(each.failures for each in runs)))
        cells += [_spread([each.seconds[share] * 1e3 for each in runs], "{:.1f} ms") for share in PERCENTILES]
        cells.append(_spread([each.cpu_seconds for each in runs], "{:.1f}"))
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(values: Sequence[float], form: str) -> str:
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return f"{form.format(middle)} ({form.format(ordered[0])} to {form.format(ordered[-1])})"


def _ours(url: str, paths: Sequence[str], rate: float, seconds: float, peers: Path, folder: Path) -> Said:
    listed = folder / "targets.list"
    listed.write_text("".join(f"{path} 1\n" for path in paths))
    words = [
        str(SOJOURN),
        "load",
        url,
        "--mix",
        str(listed),
        "--any-size",
        "--rate",
        f"{rate:g}",
        "--arrivals",
        "poisson",
    ]
    words += ["--duration", f"{seconds:g}s", "--warm-up", "2s", "--header", "Accept-Encoding: gzip", "--format", "json"]
    output, cpu = _timed(words, folder)
    told = json.loads(output)
    times = told["response_time_seconds"]
    return Said(
        "sojourn load",
        told["requests_per_second"],
        told["errors"],
        {share: times[_name(share)] for share in PERCENTILES},
        cpu,
    )


def _k6(url: str, paths: Sequence[str], rate: float, seconds: float, peers: Path, folder: Path) -> Said:
    program = peers / "bin" / "k6"
    if not program.exists():
        raise CouldNotRun("there is no k6", "benchmarks/applications/peers builds it")
    load = {
        "executor": "constant-arrival-rate", "rate": round(rate), "timeUnit": "1s", "duration": f"{seconds:g}s",
        "preAllocatedVUs": 100, "maxVUs": 400,
    }  # fmt: skip
    options = {
        "scenarios": {"load": load},
        "summaryTrendStats": ["med", "p(95)", "p(99)"],
        "discardResponseBodies": True,
    }
    script = folder / "load.js"
    script.write_text(
        f"import http from 'k6/http';\nconst paths = {json.dumps(list(paths))};\n"
        f"export const options = {json.dumps(options)};\n"
        f"export default function () {{ http.get({json.dumps(url)} + paths[Math.floor(Math.random() * paths.length)], "
        "{ headers: { 'Accept-Encoding': 'gzip' } }); }\n"
        "export function handleSummary(data) { return { stdout: JSON.stringify(data) }; }\n"
    )
    output, cpu = _timed([str(program), "run", "--quiet", "--no-usage-report", "--address", "", str(script)], folder)
    metrics = json.loads(output)["metrics"]
    duration = metrics["http_req_duration"]["values"]
    return Said(
        "k6",
        metrics["http_reqs"]["values"]["rate"],
        int(metrics["http_req_failed"]["values"]["passes"]),
        {share: duration[name] / 1e3 for share, name in zip(PERCENTILES, ("med", "p(95)", "p(99)"), strict=True)},
        cpu,
    )


def _locust(url: str, paths: Sequence[str], rate: float, seconds: float, peers: Path, folder: Path) -> Said:
    program = peers / "locust" / "bin" / "locust"
    if not program.exists():
        raise CouldNotRun("there is no Locust", "benchmarks/applications/peers installs it")
    users = max(1, round(rate / LOCUST_RATE_PER_USER))
    (folder / "locustfile.py").write_text(
        "import random\nfrom locust import FastHttpUser, constant_throughput, task\n\n\n"
        f"PATHS = {list(paths)!r}\n\n\nclass Visitor(FastHttpUser):\n"
        f"    wait_time = constant_throughput({rate / users:g})\n\n    @task\n    def look(self):\n"
        "        self.client.get(random.choice(PATHS), name='all', headers={'Accept-Encoding': 'gzip'})\n"
    )
    words = [str(program), "-f", "locustfile.py", "--headless", "--host", url, "--users", str(users)]
    words += [
        "--spawn-rate",
        str(users),
        "--run-time",
        f"{seconds:g}s",
        "--reset-stats",
        "--csv",
        "told",
        "--only-summary",
    ]
    _, cpu = _timed(words, folder)
    with (folder / "told_stats.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["Name"] == "all")
    return Said(
        "Locust",
        float(row["Requests/s"]),
        int(row["Failure Count"]),
        {share: float(row[name]) / 1e3 for share, name in zip(PERCENTILES, ("50%", "95%", "99%"), strict=True)},
        cpu,
    )


LOCUST_RATE_PER_USER = 5.0


def _timed(words: Sequence[str], folder: Path) -> tuple[str, float]:
    """Returns a program's output and its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout and done.returncode:
        raise CouldNotRun(f"{Path(words[0]).name} failed: {done.stderr.strip()[-300:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _name(share: float) -> str:
    return f"p{share * 100:g}"
