"""Steps of the load as its clients saw them: by endpoint the requests, their failures and response times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sojourn import _native
from sojourn.applications.flows import Iterations, visits_per_second
from sojourn.engine.results import NamedFigures, Summary
from sojourn.loading import named
from sojourn.loading.record import RequestsRecord
from sojourn.loading.result import LoadResult


@dataclass(frozen=True)
class EndpointStep:
    """The requests and response times of one endpoint in a step, as its clients saw them."""

    name: str
    offered_per_second: float
    responses_per_second: float
    """As they should be, whenever they were due: beyond the knee the others come later."""
    requests: int
    """Due in the step's time: answered as expected, failed, unanswered or abandoned."""
    failures: int
    """Answered otherwise, not at all, or not in time."""
    unfinished: int
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    histogram: _native.Histogram | None
    failed_by: Mapping[str, int]
    abandoned: int = 0
    """Never sent, because a request before them in their iteration had failed."""
    first_failure: str | None = None
    server_timing: Mapping[str, Summary] = field(default_factory=dict)
    """What the answers' `Server-Timing` fields say, by metric."""
    each_request: Sequence[tuple[float, float | None]] = ()
    """When its requests were due, from the begin of the measured time, negative before, and their response times, None
    for one that failed or was not answered; empty where it is not known.
    """

    @classmethod
    def of(
        cls,
        found: NamedFigures,
        offered: float,
        completed: float,
        histogram: _native.Histogram | None,
        each_request: Sequence[tuple[float, float | None]],
    ) -> EndpointStep:
        """From the engine's figures, with the offered rate and the completed requests/s for each good response."""
        times = found.response_time_seconds
        return cls(
            name=found.name,
            offered_per_second=offered,
            responses_per_second=found.requests * completed,
            requests=found.requests + found.errors + found.unfinished + found.abandoned,
            failures=found.errors,
            unfinished=found.unfinished,
            abandoned=found.abandoned,
            mean_seconds=times.mean,
            p50_seconds=times.p50,
            p95_seconds=times.p95,
            p99_seconds=times.p99,
            histogram=histogram,
            failed_by=found.errors_by_cause,
            first_failure=found.first_failure,
            server_timing=found.server_timing_seconds,
            each_request=each_request,
        )


@dataclass(frozen=True)
class Step:
    """All endpoints in one step."""

    begin: float
    """The start of the measured time, in seconds since 1970."""
    end: float
    endpoints: Sequence[EndpointStep]
    interrupted: bool = False
    generator_cpu: float = 0.0
    generator_limited: str | None = None
    """Why the generator, not the system, was the limit."""
    users: int | None = None
    """The number of users in a closed loop; None where iterations arrived at a rate."""

    @classmethod
    def of(
        cls,
        result: LoadResult,
        iterations: Iterations,
        begin: float,
        end: float,
        users: int | None = None,
        *,
        interrupted: bool,
    ) -> Step:
        """What a load has measured from `begin` to `end`, where flows were to be made so often."""
        record, offered = result.of_requests, visits_per_second(iterations)
        # Answers due before the step and complete in it stand for those due in it and complete behind it.
        completed = (record.requests_per_second or 0.0) / record.requests if record.requests else 0.0
        requests = _each_request(record)
        endpoints = [
            EndpointStep.of(
                each,
                offered[each.name],
                completed,
                result.latencies.get(named.tag(named.TAGS[0], each.name)),
                requests.get(each.name, ()),
            )
            for each in record.by_name
            if offered.get(each.name, 0.0) > 0
        ]
        return cls(
            begin,
            end,
            endpoints,
            interrupted=interrupted,
            generator_cpu=record.generator.cpu_fraction or 0.0,
            generator_limited=result.limited_because,
            users=users,
        )

    @property
    def offered_per_second(self) -> float:
        """The offered rate of all endpoints together."""
        return sum(each.offered_per_second for each in self.endpoints)

    @property
    def due_per_second(self) -> float:
        """Requests that were due, as they were drawn."""
        return sum(each.requests for each in self.endpoints) / (self.end - self.begin)

    @property
    def responses_per_second(self) -> float:
        """The throughput of all endpoints together."""
        return sum(each.responses_per_second for each in self.endpoints)

    @property
    def failed_fraction(self) -> float:
        """The share of due requests that failed, were abandoned, or were unanswered at the end."""
        due = sum(each.requests for each in self.endpoints)
        missed = sum(each.failures + each.unfinished + each.abandoned for each in self.endpoints)
        return missed / due if due else 0.0

    @property
    def failed_by(self) -> dict[str, int]:
        """Failures of all endpoints by their causes; what was still unanswered at the end is one."""
        counted: defaultdict[str, int] = defaultdict(int)
        for each in self.endpoints:
            if each.unfinished:
                counted["unanswered"] += each.unfinished
            for cause, count in each.failed_by.items():
                counted[cause] += count
        return counted

    @property
    def mean_seconds(self) -> float | None:
        """Response time over all endpoints."""
        known = [each for each in self.endpoints if each.mean_seconds is not None]
        rate = sum(each.responses_per_second for each in known)
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in known) / rate if rate else None

    @property
    def in_system(self) -> float:
        """Requests under way on average, by Little's law."""
        return sum((each.mean_seconds or 0.0) * each.responses_per_second for each in self.endpoints)

    def quantile(self, fraction: float, names: Sequence[str] | None = None) -> float | None:
        """A quantile of the response times, in seconds, of these endpoints or of all."""
        merged = _native.Histogram()
        for each in self.endpoints:
            if each.histogram is not None and (names is None or each.name in names):
                merged.merge(each.histogram)
        return merged.quantile(fraction) if len(merged) else None


def _each_request(record: RequestsRecord) -> dict[str, list[tuple[float, float | None]]]:
    """When each name's requests were due, in seconds from the begin of the measured time, and their response times."""
    found: defaultdict[str, list[tuple[float, float | None]]] = defaultdict(list)
    if record.each_request is not None and record.steps:
        begin, rows = record.steps[0].start_seconds, record.each_request
        for place, due, response in zip(rows.name, rows.due_seconds, rows.response_seconds, strict=True):
            if place is not None:
                found[record.by_name[place].name].append((due - begin, response))
    return {name: sorted(each, key=lambda row: row[0]) for name, each in found.items()}
