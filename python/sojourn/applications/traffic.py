"""Generates the load of one step: each endpoint at its own rate, together Poisson arrivals.

Each endpoint is a separate open loop of the engine that chooses among the log's targets by frequency. All start at the
same moment. The mix can therefore be varied freely, and each endpoint has its own figures.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from sojourn import _native, engine, interrupts
from sojourn.applications.coverage import expected_statuses
from sojourn.applications.endpoints import Endpoint
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult
from sojourn.machine.cores import pinned_command

START_LEAD_SECONDS = 0.3
"""How far ahead the common start is set, so that all loops are ready."""
TIMEOUT_SECONDS = 10.0
"""Timeout of a response; a slower one counts as failed."""
DRAIN_SECONDS = 5.0
"""Time to wait for outstanding responses after a step."""
GRACE_SECONDS = 30.0
SAFE_BYTES = "/?&=%:@!$'()*+,;~-._[]|"
"""Characters of a logged target that are sent unchanged; others are escaped."""


@dataclass(frozen=True)
class EndpointStep:
    """The results of one endpoint in a step."""

    name: str
    offered_per_second: float
    responses_per_second: float
    """Responses with a status that the log has for the target."""
    requests: int
    """Requests due in the step: answered as expected, failed or unanswered."""
    failures: int
    """Requests answered with another status, not at all, or too late."""
    unfinished: int
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    histogram: _native.Histogram | None
    """None where its expected responses are no successes (redirects, not found): the engine keeps counts only."""
    failed_by: Mapping[str, int]
    generator_cpu: float
    send_lag_seconds: float | None


@dataclass(frozen=True)
class Step:
    """All endpoints in one step."""

    begin: float
    """The measured time, in seconds since 1970."""
    end: float
    endpoints: Sequence[EndpointStep]
    interrupted: bool = False

    @property
    def offered_per_second(self) -> float:
        """The total rate of all endpoints."""
        return sum(each.offered_per_second for each in self.endpoints)

    @property
    def responses_per_second(self) -> float:
        """The total rate of all endpoints."""
        return sum(each.responses_per_second for each in self.endpoints)

    @property
    def failed_fraction(self) -> float:
        """The share of failed requests among all that were due, including unanswered ones."""
        due = sum(each.requests for each in self.endpoints)
        return sum(each.failures + each.unfinished for each in self.endpoints) / due if due else 0.0

    @property
    def mean_seconds(self) -> float | None:
        """Mean response time over all endpoints."""
        known = [each for each in self.endpoints if each.mean_seconds is not None]
        rate = sum(each.responses_per_second for each in known)
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in known) / rate if rate else None

    @property
    def in_system(self) -> float:
        """Mean number of requests in progress, by Little's law."""
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in self.endpoints)

    def quantile(self, fraction: float, names: Sequence[str] | None = None) -> float | None:
        """A quantile of the response time over these endpoints, or all."""
        merged = _native.Histogram()
        for each in self.endpoints:
            if each.histogram is not None and (names is None or each.name in names):
                merged.merge(each.histogram)
        return merged.quantile(fraction) if len(merged) else None


class Traffic:
    """The endpoints' requests, ready to be sent."""

    def __init__(
        self, url: str, endpoints: Sequence[Endpoint], folder: Path, headers: Sequence[str], core: int | None, seed: int
    ) -> None:
        self._url = url.rstrip("/")
        self._endpoints = endpoints
        named = {header.partition(":")[0].strip().lower() for header in headers}
        # Fields that browsers send; compression costs the system CPU time.
        self._headers = [*headers, *([] if "accept-encoding" in named else ["Accept-Encoding: gzip"])]
        self._core = core
        self._seed = seed
        self._lists = dict[str, Path]()
        self._expected = {each.name: _statuses(each) for each in endpoints}
        folder.mkdir(parents=True, exist_ok=True)
        for place, endpoint in enumerate(endpoints):
            path = folder / f"{place}.list"
            path.write_text(file_list(endpoint))
            self._lists[endpoint.name] = path

    def step(self, rates: Mapping[str, float], seconds: float, settle_seconds: float) -> Step:
        """Sends requests of each endpoint at its rate; returns the results after the settle time.

        Raises:
            CouldNotRun: the engine refuses.
        """
        self._seed += 1
        loops: list[_Loop] = []
        with interrupts.handed_on() as handed:
            try:
                for place, endpoint in enumerate(self._endpoints):
                    if rates.get(endpoint.name, 0.0) > 0:
                        loops.append(self._loop(endpoint, rates[endpoint.name], seconds, settle_seconds, place))
                for loop in loops:
                    loop.wait_ready()
                start = time.time() + START_LEAD_SECONDS
                handed.to(lambda: _stop(loops))
                for loop in loops:
                    loop.go(start)
                done = [loop.result(seconds + settle_seconds) for loop in loops]
            finally:
                for loop in loops:
                    loop.end()
        begin = start + settle_seconds
        return Step(begin, begin + seconds, done, interrupted=handed.asked)

    def _loop(self, endpoint: Endpoint, rate: float, seconds: float, settle: float, place: int) -> _Loop:
        words = [str(engine.path()), "load", self._url, "--mix", str(self._lists[endpoint.name]), "--any-size"]
        words += ["--rate", f"{rate:.6g}", "--duration", f"{seconds:g}s", "--warm-up", f"{settle:g}s"]
        words += ["--method", endpoint.method, "--timeout", f"{TIMEOUT_SECONDS:g}s", "--drain", f"{DRAIN_SECONDS:g}s"]
        words += [word for header in self._headers for word in ("--header", header)]
        words += ["--seed", str(self._seed * 1000 + place), "--embed", "--format", "json", "--start-on-stdin"]
        # Several loops share one core, so they sleep rather than poll.
        return _Loop(endpoint.name, rate, self._expected[endpoint.name], pinned_command(self._core, words))


class _Loop:
    """The engine of one endpoint."""

    def __init__(self, name: str, rate: float, expected: frozenset[str], command: Sequence[str]) -> None:
        self._name, self._rate, self._expected = name, rate, expected
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_ready(self) -> None:
        """Waits until the engine is ready."""
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        if "ready" not in line:
            said = (line + self._process.stderr.read()).removeprefix("error: ")
            what, _, hint = said.strip().partition("\nhint: ")
            raise CouldNotRun(f"no load for {self._name}: {what}", hint or None)

    def go(self, start: float) -> None:
        """Starts at the given time."""
        self._say(f"go {start:.6f}")

    def stop(self) -> None:
        """Stops early; the results so far still arrive."""
        self._say("stop")

    def result(self, seconds: float) -> EndpointStep:
        """Its results."""
        try:
            # Standard input stays open, because closing it would end the run.
            output = _read(self._process, seconds + TIMEOUT_SECONDS + GRACE_SECONDS)
            record = RequestsRecord.model_validate_json(output)
        except (ValidationError, subprocess.TimeoutExpired) as error:
            raise CouldNotRun(f"the load for {self._name} ended without a result") from error
        return _figures(self._name, self._rate, self._expected, LoadResult.of(record))

    def end(self) -> None:
        """Releases all resources."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            # A failed engine is noticed by its missing output.
            return


def _stop(loops: Sequence[_Loop]) -> None:
    for loop in loops:
        loop.stop()


def _read(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    guard = time.monotonic() + seconds
    output = process.stdout.read()
    process.wait(max(0.0, guard - time.monotonic()) + 1.0)
    return output


def _figures(name: str, rate: float, expected: frozenset[str], result: LoadResult) -> EndpointStep:
    record = result.record
    assert isinstance(record, RequestsRecord)
    good = {code: each for code, each in record.by_status.items() if code in expected}
    answered = sum(each.responses for each in good.values())
    all_answered = sum(each.responses for each in record.by_status.values())
    unanswered = max(0, record.errors + record.requests - all_answered)
    summaries = [each.response_time_seconds for each in good.values() if each.response_time_seconds.count]
    counted = sum(each.count for each in summaries)
    histogram = result.latencies.get("response_time") if any(code.startswith("2") for code in good) else None
    one = summaries[0] if len(summaries) == 1 else None
    # A request due close to the end may not have started.
    unfinished = max(0, record.unfinished - 1)

    def quantile(fraction: float, figure: float | None) -> float | None:
        return figure if one is not None or histogram is None else histogram.quantile(fraction)

    return EndpointStep(
        name=name,
        offered_per_second=rate,
        responses_per_second=_throughput(record, answered),
        requests=record.requests + record.errors + unfinished,
        failures=all_answered - answered + unanswered,
        unfinished=unfinished,
        mean_seconds=sum((each.mean or 0.0) * each.count for each in summaries) / counted if counted else None,
        p50_seconds=quantile(0.5, one.p50 if one else None),
        p95_seconds=quantile(0.95, one.p95 if one else None),
        p99_seconds=quantile(0.99, one.p99 if one else None),
        histogram=histogram,
        failed_by={
            cause: count
            for cause, count in record.errors_by_cause.items()
            if not (cause.startswith("status_") and any(code[0] == cause[7] for code in expected))
        },
        generator_cpu=record.generator.cpu_fraction or 0.0,
        send_lag_seconds=record.generator.send_lag_p99_seconds,
    )


def _throughput(record: RequestsRecord, answered: int) -> float:
    """Responses within the time, whenever they were due, because beyond the knee they come late."""
    if record.requests and record.requests_per_second is not None:
        return record.requests_per_second * answered / record.requests
    # For responses that are no successes the engine counts only those that were due.
    return answered / record.duration_seconds if record.duration_seconds else 0.0


def file_list(endpoint: Endpoint) -> str:
    """The endpoint's targets with their frequencies, in the engine's format."""
    counts = dict[str, int]()
    for row in endpoint.requests:
        target = quote(row.target.partition("#")[0], safe=SAFE_BYTES)
        if target.startswith("/"):
            counts[target] = counts.get(target, 0) + row.count
    if not counts:
        raise CouldNotRun(f"{endpoint.name} has no target that can be asked for")
    return "".join(f"{target} {min(count, 1 << 31)}\n" for target, count in counts.items())


def _statuses(endpoint: Endpoint) -> frozenset[str]:
    return frozenset(str(status) for target in expected_statuses(endpoint).values() for status in target)
