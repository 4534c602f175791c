"""A cell of the tables: a server is started and checked, and then loaded or filled with idle connections."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.server import h2load, httparena, idle, start
from benchmarks.server.competitors import Competitor
from benchmarks.server.conditions import Condition
from sojourn.assessment.measurement import Bench, Interrupted, ServerStopped
from sojourn.engine.results import ServerUse, Unavailable
from sojourn.failure import CouldNotRun
from sojourn.loading.record import RequestsRecord, Step
from sojourn.machine.cores import Cores
from sojourn.systems import Launch, Running
from sojourn.text import format

VERIFY_TIMEOUT_SECONDS = 10.0
SERVED_FRACTION_MIN = 0.5
"""If a server serves a smaller fraction of its clients than this, the others only wait."""
RESUMED_FRACTION_MIN = 0.95
"""If a server resumes a smaller fraction of the sessions that it could, its figure is of other handshakes."""
SETTLE_SECONDS_PER_1000_CLIENTS = 0.2
"""Time for many clients to connect, added to the warm-up."""


@dataclass(frozen=True)
class Setting:
    """The parameters that all cells of a run share."""

    site: Path
    cores: Cores
    seed: int
    duration_seconds: float
    warm_up_seconds: float
    congestion_control: str | None
    """None leaves congestion control and network as they are."""
    in_turn: bool = False
    """Whether servers stay from one cell to the next."""

    def seconds_of(self, condition: Condition) -> float:
        """Returns how long a cell's load takes, without starting and stopping."""
        if not condition.is_load:
            return 0.0
        return self.duration_seconds + self.warm_up_of(condition)

    def warm_up_of(self, condition: Condition) -> float:
        """Returns the warm-up of a cell, which is longer for many clients."""
        return self.warm_up_seconds + condition.clients / 1000 * SETTLE_SECONDS_PER_1000_CLIENTS

    def options_of(self, condition: Condition) -> dict[str, Any]:
        return {
            "path": condition.path,
            "clients": condition.clients,
            "duration_seconds": self.duration_seconds,
            "warm_up_seconds": self.warm_up_of(condition),
            "connection": condition.connection,
        }


@dataclass(frozen=True)
class Cell:
    """The figures of a cell; if one could not be measured it is None, and `trouble` says why."""

    condition: str
    competitor: str
    repetition: int
    seconds: float = 0.0
    """The time for measuring it, including starting and stopping the server."""
    version: str | None = None
    cpu_seconds_per_request: float | None = None
    cpu_user_fraction: float | None = None
    cpu_fraction: float | None = None
    requests_per_second: float | None = None
    response_time_p50_seconds: float | None = None
    requests: int | None = None
    core_steal_fraction: float | None = None
    memory: idle.Growth | None = None
    start: start.Start | None = None
    limited_because: str | None = None
    """Why the generator was the limit, if it was."""
    trouble: str | None = None
    """Errors, wrong sizes, or why the server could not be measured at all."""

    @property
    def cost(self) -> float | None:
        """Returns the compared figure: CPU seconds per request, bytes per idle connection, or seconds to start."""
        if self.start is not None:
            return self.start.seconds
        return self.cpu_seconds_per_request if self.memory is None else self.memory.proportional_bytes_per_connection

    @property
    def said(self) -> str:
        """Returns the message for its end."""
        if self.trouble:
            return self.trouble
        if self.memory is not None:
            return f"{self.memory.proportional_bytes_per_connection:.0f} B/connection"
        if self.start is not None:
            return f"{format.seconds(self.start.seconds)} to the first answer"
        return f"{format.seconds(self.cpu_seconds_per_request)}/request, {format.rate(self.requests_per_second)}"

    def as_json(self) -> dict[str, Any]:
        """Returns it as a line of the results file."""
        return asdict(self)

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Self:
        """Reads what `as_json` returned."""
        memory, started = fields.pop("memory"), fields.pop("start", None)
        return cls(
            **fields,
            memory=None if memory is None else idle.Growth(**memory),
            start=None if started is None else start.Start(**started),
        )


C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Served:
    """A server that runs and answers rightly, and what its load needs."""

    server: Running
    options: Sequence[str] = ()
    """More options of the generator."""


def attempted(cell: C, measure: Callable[[C], C]) -> C:
    """Returns the measured cell. If a server fails, it has `trouble`; only Ctrl-C reaches the caller."""
    began = time.monotonic()
    try:
        found = measure(cell)
    except (CouldNotRun, ServerStopped) as error:
        found = with_trouble(cell, error)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    return replace(found, seconds=time.monotonic() - began)


@contextmanager
def work_folder(parent: Path | None = None) -> Iterator[Path]:
    """Makes a folder for a server's files, and removes it afterwards."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-", dir=parent) as scratch:
        work = Path(scratch)
        # A server that changes to another user must enter it.
        work.chmod(0o755)
        yield work


@contextmanager
def serving(condition: Condition, competitor: Competitor, setting: Setting) -> Iterator[Served]:
    """Starts a server and checks its responses.

    Raises:
        CouldNotRun: it does not start, or answers wrongly.
    """
    with work_folder() as work:
        launch = Launch(setting.site, work, setting.cores.server, "", condition.access_log)
        if condition.protocol != "http":
            launch = replace(launch, certificate=h2load.certificate(work))
        trusted = launch.certificate.chain if launch.certificate else None
        with competitor.start(launch, condition) as server:
            _verify(server.url, condition, competitor, setting.site, trusted)
            yield Served(server, _options(condition, competitor, work, trusted))


def load(cell: Cell, condition: Condition, setting: Setting, served: Served) -> Cell:
    """Measures a running server.

    Raises:
        CouldNotRun, ServerStopped, Interrupted: there is no figure.
    """
    server = served.server
    if condition.idle:
        return replace(cell, memory=idle.measure(server, condition))
    if condition.is_start:
        return replace(cell, start=start.measure(server, condition, setting.cores.server))
    if condition.protocol != "http" and condition.handshake is None:
        moments = setting.duration_seconds, setting.warm_up_of(condition)
        return _with_load(cell, h2load.load(server, condition, setting.cores.generator, *moments))
    options = setting.options_of(condition) | {"options": served.options}
    return with_figures(cell, Bench(server, setting.cores, setting.seed).closed_loop(**options), condition)


def _verify(url: str, condition: Condition, competitor: Competitor, site: Path, trusted: Path | None) -> None:
    """Verifies the document of a condition, or all its files in the coding that the server should choose."""
    if not condition.is_arena:
        verify(url + condition.path, site / condition.size, trusted)
        return
    for file in httparena.FILES:
        name, _ = file.answer_to(competitor.name)
        document = site / httparena.FOLDER.lstrip("/") / name
        verify(f"{url}{httparena.FOLDER}/{file.name}", document, accept_encoding=httparena.ACCEPT_ENCODING)


def _options(condition: Condition, competitor: Competitor, work: Path, trusted: Path | None) -> list[str]:
    """Returns the generator's options for the files of HttpArena, or for a connection with TLS per request."""
    if condition.is_arena:
        files = work / "httparena.list"
        # The generator takes a body of another size for an error.
        files.write_text(httparena.file_list(competitor.name))
        return ["--mix", str(files), "--header", f"Accept-Encoding: {httparena.ACCEPT_ENCODING}"]
    if trusted is not None:
        return ["--cacert", str(trusted), *(["--no-resumption"] if condition.handshake == "full" else [])]
    return []


def with_trouble(cell: C, error: Exception) -> C:
    """Returns the cell of a failed server."""
    return replace(cell, trouble=str(error).removeprefix("error: ").partition("\nhint: ")[0])


def with_figures(cell: C, result: RequestsRecord, condition: Condition) -> C:
    """Returns the cell with the figures of its load."""
    step = result.steps[0]
    use = step.server or ServerUse()
    return replace(
        cell,
        cpu_seconds_per_request=_figure(use.cpu_seconds_per_request),
        cpu_user_fraction=_figure(use.cpu_user_fraction),
        cpu_fraction=_figure(use.cpu_fraction),
        requests_per_second=result.requests_per_second,
        response_time_p50_seconds=result.response_time_seconds.p50,
        requests=result.requests,
        core_steal_fraction=_figure(use.core_steal_fraction),
        limited_because=result.generator.limited_because,
        trouble=_trouble(result, step, condition),
    )


def _with_load(cell: Cell, load: h2load.Load) -> Cell:
    """Returns the cell with the figures of a load by h2load."""
    wrong = f"{load.errors} of {load.requests + load.errors} requests failed" if load.errors else None
    return replace(
        cell,
        cpu_seconds_per_request=load.cpu_seconds / load.requests if load.requests else None,
        cpu_fraction=load.cpu_seconds / load.seconds,
        requests_per_second=load.requests / load.seconds,
        requests=load.requests,
        limited_because=load.limited_because,
        trouble=wrong if load.requests else "no request was answered",
    )


def _figure(reading: float | Unavailable) -> float | None:
    return None if isinstance(reading, Unavailable) else reading


def _trouble(result: RequestsRecord, step: Step, condition: Condition) -> str | None:
    """Returns why the figures of a cell do not mean what they seem to."""
    if result.errors:
        causes = ", ".join(f"{count} {cause}" for cause, count in result.errors_by_cause.items())
        return f"{result.errors} of {result.requests + result.errors} requests failed: {causes}"
    if not result.requests:
        return "no request was answered"
    # Little's law does not apply to sessions, which pause between their requests.
    if step.little is not None and _law_holds(result):
        served = step.little.accounted
        if served < SERVED_FRACTION_MIN * condition.clients:
            return f"about {served:,.0f} of {condition.clients:,} clients were served, the others waited"
    if condition.handshake == "resumed" and step.handshakes_resumed < RESUMED_FRACTION_MIN * result.requests:
        return f"{step.handshakes_resumed:,} of {result.requests:,} handshakes resumed a session"
    mean = step.response_bytes_mean
    # Of several files the generator has compared each answer with its own size.
    if not condition.is_arena and (mean is None or abs(mean - condition.size_bytes) > 1e-6 * condition.size_bytes):
        return f"bodies of {mean} bytes on average instead of {condition.size_bytes}"
    return None


def _law_holds(result: RequestsRecord) -> bool:
    """Returns true if Little's law gives the number of clients that are served.

    Throughput times response time is the number of requests in progress, one per client. This holds only if each client
    gets several responses within the measured time.
    """
    median = result.response_time_seconds.p50
    return median is not None and median * 4 < result.duration_seconds


class WrongResponse(CouldNotRun):
    """A server does not serve the document correctly."""


def verify(url: str, document: Path, trusted: Path | None = None, accept_encoding: str = "identity") -> None:
    """Requests the document once, with a client that is not the generator, and compares status, size and hash.

    `trusted` is the certificate of a server with TLS, which must speak TLS 1.3: sessions of TLS 1.2 cost less to
    resume. Bytes are compared as they are sent, whatever their coding.

    Raises:
        WrongResponse: there is no response, or another one.
    """
    body = document.read_bytes()
    try:
        context = None
        if trusted is not None:
            context = ssl.create_default_context(cafile=str(trusted))
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        request = urllib.request.Request(url, headers={"Accept-Encoding": accept_encoding})
        with urllib.request.urlopen(request, timeout=VERIFY_TIMEOUT_SECONDS, context=context) as response:
            status, received = response.status, response.read()
    except (urllib.error.URLError, OSError) as error:
        raise WrongResponse(f"{url} is not served: {error}") from error
    if status != 200:
        raise WrongResponse(f"{url} is answered {status}")
    if len(received) != len(body):
        raise WrongResponse(f"{url} has {len(received)} bytes instead of {len(body)}")
    if hashlib.sha256(received).digest() != hashlib.sha256(body).digest():
        raise WrongResponse(f"{url} has the right size and other bytes")
