"""Adds a probe to a run: the server's counters in the run's tables, and the cost of a request by step.

The recording is joined by time (`probe.merging`), so it may come from this or another host. CPU time per request is
exact; its split into user and system time follows the kernel's ticks of 10 ms.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit

from sojourn import engine
from sojourn.engine.results import Unavailable
from sojourn.failure import CouldNotRun
from sojourn.loading.record import AnyStep, ProbeUse, RequestsRecord, RunRecord, StreamsRecord, StreamsStep
from sojourn.loading.result import LoadResult
from sojourn.loading.run import Runner, option
from sojourn.probe.companion import Companion, Watched, with_probe
from sojourn.probe.merging import PREFIX, merge, require_overlap, within
from sojourn.probe.recording import Recording
from sojourn.probe.totals import CounterUse, summary

TICKED_SECONDS_MIN = 0.1
"""Ten ticks: with less CPU time, the split into user and system time is random."""
PROBE = "probe"
"""The key of the probe's figures in a run and in each step."""
T = TypeVar("T", RequestsRecord, StreamsRecord, RunRecord)
_PORTS = {"https": 443, "rtsp": 554}


def probed(runner: Runner, watched: Watched) -> Runner:
    """Wraps the runner with a probe from just before each run to just after it."""

    def run(options: Sequence[str], progress: engine.Progress | None) -> LoadResult:
        with Companion(_on_cores(watched, options)) as companion:
            result = runner(options, with_probe(progress, companion))
        assert companion.recording is not None
        try:
            return attach(result, companion.recording, cores=companion.cores)
        except CouldNotRun as failure:
            # As where the processes ended before the first step: what was measured of the load counts all the same.
            unavailable = ProbeUse(unavailable=failure.what)
            return replace(result, record=result.record.model_copy(update={PROBE: unavailable}))

    return run


def attach(
    result: LoadResult, recording: Recording, *, offset_seconds: float = 0.0, cores: int | None = None
) -> LoadResult:
    """Adds the recording to the run's timeline, intervals and record.

    `offset_seconds` is added to the recording's times; `cores` is the number available to its processes.
    """
    import polars

    record = attached(result.record, recording, offset_seconds=offset_seconds, cores=cores)
    timeline = result.timeline
    if len(timeline.get("unix_seconds", ())):
        frame = polars.DataFrame({name: column for name, column in timeline.items() if not name.startswith(PREFIX)})
        whole = merge(frame, recording, offset_seconds=offset_seconds)
        timeline = {name: whole[name].to_numpy() for name in whole.columns}
    return replace(result, record=record, timeline=timeline, recording=recording)


def attached(record: T, recording: Recording, *, offset_seconds: float = 0.0, cores: int | None = None) -> T:
    """Adds the usage in the run and in each step to the record."""
    started = record.started_unix_seconds
    if started is None:
        raise CouldNotRun("the run has no start time", "it was written by an older version: measure it again")
    spans = [(started + step.start_seconds, step.duration_seconds) for step in record.steps]
    if not spans:
        return record.model_copy(update={PROBE: ProbeUse(unavailable="no step was measured")})
    begin, end = spans[0][0], spans[-1][0] + spans[-1][1]
    require_overlap(recording, begin, end, offset_seconds)
    used = [within(recording, at, at + length, offset_seconds=offset_seconds) for at, length in spans]
    whole = summary(within(recording, begin, end, offset_seconds=offset_seconds))
    parts = [summary(each).counters for each in used]
    # The unit of the server's work.
    unit = "stream_second" if isinstance(record, StreamsRecord) else "request"
    done = [_done(step) for step in record.steps]
    of_run = ProbeUse(
        pids=whole.pids,
        samples=whole.samples,
        duration_seconds=whole.duration_seconds,
        probe_cpu_fraction=whole.probe_cpu_fraction,
        counters=whole.counters,
        offset_seconds=offset_seconds,
        cores=cores,
    ).model_copy(update=_per_unit(parts, sum(done), unit))
    steps = [
        step.model_copy(
            update={PROBE: ProbeUse(counters=counters).model_copy(update=_per_unit([counters], count, unit))}
        )
        for step, counters, count in zip(record.steps, parts, done, strict=True)
    ]
    return record.model_copy(update={PROBE: of_run, "steps": steps})


def watched_by(url: str, pids: Sequence[int], port: int | None, interval: str) -> Watched:
    """What to probe: the named processes, or the one that listens on the URL's port on this machine."""
    if pids or port is not None:
        return Watched(tuple(pids), port, interval)
    split = urlsplit(url)
    named = split.port or _PORTS.get(split.scheme, 80)
    if not _is_local(split.hostname or ""):
        raise CouldNotRun(
            f"{split.hostname} is not this machine, so its processes cannot be probed from here",
            "run sojourn probe --output there, and join the file to the run folder with sojourn join-probe",
        )
    return Watched((), named, interval)


def _on_cores(watched: Watched, options: Sequence[str]) -> Watched:
    """Keeps the probe off the cores named in the run's options."""
    server, generator = _core(options, "--observe-core"), _core(options, "--core")
    return replace(
        watched,
        server_core=watched.server_core if server is None else server,
        generator_core=watched.generator_core if generator is None else generator,
    )


def _core(options: Sequence[str], name: str) -> int | None:
    core = option(options, name)
    return int(core) if core is not None and re.fullmatch(r"\d+", core) else None


def _done(step: AnyStep) -> float:
    """Good responses completed in a step, or seconds of streams."""
    if isinstance(step, StreamsStep):
        return step.stream_seconds
    return (step.requests_per_second or 0.0) * step.duration_seconds


def _per_unit(spans: Sequence[Mapping[str, CounterUse]], done: float, unit: str) -> dict[str, float | Unavailable]:
    """The cost of a unit of work over several spans, from the counters of each."""
    whole, user, system = (f"cpu_{part}seconds_per_{unit}" for part in ("", "user_", "system_"))
    spent = [counters.get("cpu_seconds", CounterUse(unavailable="no process was probed")) for counters in spans]
    lacking = next((each.unavailable for each in spent if each.total is None), None)
    if done <= 0 or lacking:
        why = Unavailable(unavailable=lacking or "no client was served")
        return {whole: why, user: why, system: why}
    each = sum(part.total or 0.0 for part in spent) / done
    ticks = [
        sum(counters.get(name, CounterUse()).total or 0.0 for counters in spans)
        for name in ("cpu_user_seconds", "cpu_system_seconds")
    ]
    if sum(ticks) < TICKED_SECONDS_MIN:
        why = Unavailable(unavailable=f"less than {TICKED_SECONDS_MIN} s of CPU time: ticks of 10 ms are too coarse")
        return {whole: each, user: why, system: why}
    share = ticks[0] / sum(ticks)
    return {whole: each, user: each * share, system: each * (1 - share)}


def _is_local(host: str) -> bool:
    """Returns true if an address of the host is local: only such can be bound."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.bind((address[0], 0, *address[2:]))
            except OSError:
                continue
            return True
    return False
