"""A cluster of Dask workers: started or joined as a `Target` says, and closed with what was started.

Connections to workers are encrypted and authenticated both ways with TLS wherever this module starts the scheduler.
The credentials are made for the cluster and live as long as it does.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from sojourn import __version__
from sojourn.cluster import worker_process
from sojourn.cluster.ssh_credentials import Host, on_hosts
from sojourn.cluster.target import MANAGERS, LocalProcesses, Managed, Scheduler, SshHosts, Target
from sojourn.cluster.tasks import ClusterLost, Outcome, WorkerLost
from sojourn.failure import CouldNotRun

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.security import Security

T = TypeVar("T")

LOAD = "load"
"""The resource of a worker that generates load: one unit, so that no two loads share a worker."""
CONNECT_SECONDS_MAX = 20.0
ANSWER_SECONDS_MAX = 5.0
"""How long a scheduler tries to reach a worker."""
RECONNECT_SECONDS_MAX = 60.0
"""How long a lost scheduler may take to come back."""
START_SECONDS_MAX = 120.0
"""How long the first worker may take to start; a batch system may let it wait in a queue for longer."""
QUEUE_SECONDS_MAX = 3600.0
TASKS_PER_THREAD = 4
"""Tasks at a worker per thread: one runs and the others wait there, so that no thread waits for the network."""
IDLE_SECONDS_MAX = 3600.0
"""A scheduler on another host ends after so long without a task: its command may have been killed."""
_TABLES = "/info/main/workers.html"
LOSSES_MAX = 5
"""How often a task may be lost with a scheduler."""
RESULT_SECONDS_MAX = 60.0
"""How long the result of a load may take on its way."""
_DIGITS = 9
_TALKATIVE = ("distributed", "distributed.worker", "distributed.nanny", "distributed.scheduler", "tornado", "asyncio")
LOOK_SECONDS = 2.0
"""How old the known number of threads may be."""
_INSTALL = "pip install 'sojourn[cluster]'"


@contextmanager
def opened(target: Target, told: Callable[[str], object] = lambda text: None) -> Iterator[DaskCluster]:
    """Starts or joins a cluster; closes what it started.

    Args:
        target: the cluster.
        told: is called with lines for the user, such as the address of the dashboard.

    Raises:
        CouldNotRun: Dask is not installed, the cluster cannot be started or reached, or a worker has another version.
    """
    try:
        import dask
        import distributed
    except ImportError:
        raise CouldNotRun("--cluster needs Dask, which is not installed", _INSTALL) from None
    # What is lost is said by the command, once.
    for name in (
        "distributed",
        "distributed.client",
        "distributed.gc",
        "distributed.worker",
        "distributed.nanny",
        "distributed.scheduler",
        "tornado",
        "tornado.application",
        "asyncio",
    ):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        # A worker that has died is asked no longer than this: the others are not asked meanwhile.
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": f"{ANSWER_SECONDS_MAX:g} s"}))
        try:
            started = _started(target, stack)
            options: dict[str, Any] = {"timeout": RECONNECT_SECONDS_MAX, "set_as_default": False}
            if isinstance(target, Scheduler):
                client = _joined(target, options)
            else:
                client = distributed.Client(started, **options)
        except (OSError, RuntimeError, ValueError, TypeError, ImportError) as error:
            raise CouldNotRun(f"--cluster {target} cannot be started: {_said(error)}", _cure(target)) from error
        except KeyboardInterrupt:
            _abandon()
            raise
        stack.callback(_closed, client)
        cluster = DaskCluster(client, target)
        waits = QUEUE_SECONDS_MAX if isinstance(target, Managed) else START_SECONDS_MAX
        try:
            client.wait_for_workers(1, timeout=waits)
        except TimeoutError:
            raise CouldNotRun(f"--cluster {target} has no worker after {waits:g} s", _cure(target)) from None
        cluster.require_version()
        told(f"cluster {target}: {cluster.said()}")
        told(f"dashboard: {dashboard(client, target)}")
        yield cluster


def dashboard(client: Client, target: Target) -> str:
    """The address of the dashboard; of its tables where bokeh, which draws the plots, is not installed."""
    from urllib.parse import urlsplit

    link = urlsplit(str(client.dashboard_link))
    page, more = (link.path, "") if find_spec("bokeh") else (_TABLES, " (with plots: pip install bokeh)")
    if isinstance(target, SshHosts):
        # It has no authentication, so it listens on the scheduler's machine only.
        more += f", after ssh -N -L {link.port}:127.0.0.1:{link.port} {target.hosts[0]}"
        return f"http://127.0.0.1:{link.port}{page}{more}"
    return f"{link.scheme}://{link.netloc}{page}{more}"


def _joined(target: Scheduler, options: dict[str, Any]) -> Client:
    from distributed import Client

    client = Client(target.address, asynchronous=False, **{**options, "timeout": CONNECT_SECONDS_MAX})
    # The same limit applies to a lost connection, and a scheduler takes longer to start again.
    client._timeout = RECONNECT_SECONDS_MAX
    return client


def _started(target: Target, stack: ExitStack) -> Any:
    """Starts the scheduler and the workers; None for a running scheduler."""
    from distributed import LocalCluster

    match target:
        case LocalProcesses(processes):
            local = LocalCluster(
                n_workers=processes,
                threads_per_worker=1,
                protocol="tls://",
                security=_temporary(),
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address=None,
                silence_logs=logging.CRITICAL,
                resources={LOAD: 1},
                preload=[worker_process.__name__],
            )
            return stack.enter_context(contextlib.closing(local))
        case SshHosts(hosts, options):
            return stack.enter_context(contextlib.closing(_by_ssh(hosts, options, stack)))
        case Managed(manager, workers, options):
            module, name = MANAGERS[manager]
            try:
                made = getattr(importlib.import_module(module), name)
            except ImportError:
                package = module.partition(".")[0].replace("_", "-")
                raise CouldNotRun(f"kind {manager} needs {package}", f"pip install {package}") from None
            given = dict(options)
            if module == "dask_jobqueue":
                given = {
                    "protocol": "tls://",
                    "security": True,
                    "worker_extra_args": ["--resources", f"{LOAD}=1"],
                    **given,
                }
            managed = stack.enter_context(contextlib.closing(made(**given)))
            managed.scale(workers)
            return managed
        case Scheduler():
            return None


def _by_ssh(hosts: Sequence[str], options: Mapping[str, object], stack: ExitStack) -> Any:
    """The scheduler on the first host and a worker on each, as `distributed.SSHCluster` starts them.

    Unlike there, each listens at the address by which this machine reaches its host.
    """
    from distributed.deploy import ssh
    from distributed.deploy.spec import SpecCluster

    given = dict(options)
    connect = _table(given.pop("connect_options", {}))
    of_workers, of_scheduler = (_table(given.pop(name, {})) for name in ("worker_options", "scheduler_options"))
    python = given.pop("remote_python", None)
    if given:
        raise CouldNotRun(
            f"a cluster by ssh has no option {next(iter(given))!r}",
            "known: connect_options, worker_options, scheduler_options, remote_python",
        )
    reached = [Host.parse(host, connect) for host in hosts]
    credentials = _temporary()
    placed = stack.enter_context(on_hosts(reached, _pem(credentials)))
    secured = {"protocol": "tls://", "security": {"require_encryption": True, **placed.security}}

    def started(place: int, kwargs: Mapping[str, object]) -> dict[str, object]:
        host, address = reached[place], placed.addresses[place]
        own = {**kwargs, **secured, "host": address}
        return {"address": host.name, "connect_options": dict(host.options), "kwargs": own, "remote_python": python}

    scheduler = {
        "dashboard_address": "127.0.0.1:0",
        "port": 0,
        "idle_timeout": f"{IDLE_SECONDS_MAX:g} s",
        **of_scheduler,
    }
    workers = {"resources": {LOAD: 1}, "death_timeout": f"{RECONNECT_SECONDS_MAX:g} s", **of_workers}
    return SpecCluster(
        {place: {"cls": ssh.Worker, "options": started(place, workers)} for place in range(len(hosts))},
        {"cls": ssh.Scheduler, "options": started(0, scheduler)},
        security=credentials,
        name="sojourn",
    )


def _temporary() -> Security:
    from distributed.security import Security

    return Security.temporary()


def _pem(credentials: Security) -> dict[str, str]:
    """The texts of the certificate and of the key."""
    return {"certificate": str(credentials.tls_ca_file), "key": str(credentials.tls_client_key)}


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CouldNotRun(
            "connect_options, worker_options and scheduler_options are tables", "[options.worker_options]"
        )
    return value


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _cure(target: Target) -> str:
    match target:
        case Scheduler():
            return (
                "does it run, and does DASK_DISTRIBUTED__COMM__TLS__CA_FILE (with CLIENT__CERT and CLIENT__KEY) name "
                "credentials that it accepts?"
            )
        case SshHosts():
            return "does `ssh HOST` work without a password, with the same Python and sojourn at the same path?"
        case Managed():
            return "does the batch system start the workers? See its queue"
        case LocalProcesses():
            return "are there memory and processes left?"


def _closed(client: Client) -> None:
    # A scheduler that has died does not answer.
    with contextlib.suppress(Exception):
        client.close(timeout=2)


def _abandon() -> None:
    """Keeps Dask from closing, at the end of the process, what had not yet started: it fails with a traceback."""
    from distributed.deploy.spec import SpecCluster

    for cluster in list(SpecCluster._instances):
        cluster.shutdown_on_close = False


def _version() -> str:
    return __version__


class DaskCluster:
    """Runs tasks on the workers of a cluster; see `Tasks`."""

    def __init__(self, client: Client, target: Target) -> None:
        self.client = client
        self.target = target
        self.name = f"--cluster {target}"
        self._threads = 1
        self._looked = -LOOK_SECONDS

    def said(self) -> str:
        """The number of workers and threads."""
        threads = self.client.nthreads()
        workers, total = len(threads), sum(threads.values())
        return f"{workers:,} worker{'s' * (workers != 1)}, {total:,} thread{'s' * (total != 1)}"

    def require_version(self) -> None:
        """Refuses workers with another version, whose results would be another program's."""
        answers: dict[str, object] = self.client.run(_version, on_error="return")
        for worker, answer in answers.items():
            if answer != __version__:
                has = _said(answer) if isinstance(answer, BaseException) else f"sojourn {answer}"
                raise CouldNotRun(
                    f"{self.name}: the worker {worker} has not sojourn {__version__}: {has}",
                    f"{_INSTALL} there, in the same version as here",
                )

    def shared(self, value: T) -> T:
        """See `Tasks.shared`."""
        return _Shared(value)  # type: ignore[return-value]

    def _at_workers(self, argument: object) -> object:
        """The argument, or the future of a shared value that the workers have."""
        if not isinstance(argument, _Shared):
            return argument
        if argument.future is None or argument.future.status in ("cancelled", "lost"):
            argument.future = self.client.scatter(argument.value, broadcast=True, hash=False)
        return argument.future

    def ask(self, worker: str, function: Callable[..., T], *arguments: object) -> T:
        """See `Tasks.ask`."""
        return Loader(self.client, worker, worker).ask(function, *arguments)

    def each(
        self,
        function: Callable[..., T],
        arguments: Iterable[tuple[object, ...]],
        *,
        same_worker: bool = False,
        ahead_max: int | None = None,
    ) -> Generator[Outcome[T]]:
        """See `Tasks.each`."""
        from distributed import as_completed

        given = enumerate(arguments)
        running: dict[Future, tuple[int, tuple[object, ...]]] = {}
        lost: dict[int, int] = {}
        done = as_completed(with_results=False, raise_errors=False, loop=self.client.loop)

        def submit(place: int, words: tuple[object, ...]) -> None:
            where = self._workers_of(place) if same_worker else None
            future = self.client.submit(
                function,
                *map(self._at_workers, words),
                pure=False,
                workers=where,
                allow_other_workers=where is not None,
            )
            running[future] = (place, words)
            done.add(future)

        try:
            exhausted = False
            begun, first_missing, came = 0, 0, set[int]()
            while True:
                while not exhausted and len(running) < TASKS_PER_THREAD * self.threads:
                    if ahead_max is not None and begun - first_missing >= ahead_max:
                        break
                    following = next(given, None)
                    if following is None:
                        exhausted = True
                    else:
                        submit(*following)
                        begun += 1
                if not running:
                    return
                future = next(done)
                place, words = running.pop(future)
                if future.status in ("cancelled", "lost"):
                    lost[place] = lost.get(place, 0) + 1
                    if lost[place] > LOSSES_MAX:
                        raise ClusterLost(f"{self.name}: a task was lost {LOSSES_MAX} times", _cure(self.target))
                    self._wait_for_scheduler()
                    submit(place, words)
                    continue
                came.add(place)
                while first_missing in came:
                    came.remove(first_missing)
                    first_missing += 1
                if future.status == "finished":
                    yield Outcome(place, future.result())
                else:
                    yield Outcome(place, None, _failure(future.exception()))
        finally:
            if running and self.client.status == "running":
                with contextlib.suppress(Exception):
                    self.client.cancel(list(running), force=True)

    def _workers_of(self, place: int) -> list[str] | None:
        """The worker that tasks in this place prefer; None if the workers are not known."""
        with contextlib.suppress(OSError, ValueError):
            workers = sorted(self.client.nthreads())
            return [workers[place % len(workers)]] if workers else None
        return None

    def loaders(self) -> list[Loader]:
        """The workers that may generate load, in the order of their hosts and names."""
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        able = [(each, address) for address, each in known.items() if each.get("resources", {}).get(LOAD, 0) >= 1]
        able.sort(key=lambda each: (each[0]["host"], str(each[0]["name"]).zfill(_DIGITS), each[1]))
        hosts = Counter(str(each["host"]) for each, _ in able)
        return [
            Loader(self.client, address, f"{each['host']}#{each['name']}" if hosts[each["host"]] > 1 else each["host"])
            for each, address in able
        ]

    @property
    def threads(self) -> int:
        """The threads of all workers, at least one."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            with contextlib.suppress(OSError, ValueError):
                self._threads = max(1, sum(self.client.nthreads().values()))
        return self._threads

    def _wait_for_scheduler(self) -> None:
        """Waits until the client has a scheduler with a worker again."""
        until = time.monotonic() + RECONNECT_SECONDS_MAX
        while time.monotonic() < until:
            if self.client.status == "closed":
                break
            if self.client.status == "running":
                with contextlib.suppress(Exception):
                    self.client.wait_for_workers(1, timeout=max(1.0, until - time.monotonic()))
                    return
            time.sleep(0.1)
        raise ClusterLost(
            f"{self.name}: the scheduler is gone and did not come back within {RECONNECT_SECONDS_MAX:g} s",
            "start it again, then run the same command",
        )


@dataclass
class Loader:
    """A worker with the resource `load`: runs one long task, and answers while the task runs."""

    client: Client
    address: str
    name: str
    """Its host, with the worker's name where several share a host."""
    _task: Future | None = None

    def begin(self, function: Callable[..., object], *arguments: object) -> None:
        """Begins the task once the worker generates no other load."""
        self._task = self.client.submit(
            function,
            *arguments,
            workers=[self.address],
            allow_other_workers=False,
            resources={LOAD: 1},
            pure=False,
            retries=0,
        )

    def ask(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function that answers at once, beside the task.

        Raises:
            WorkerLost: the worker is gone.
            CouldNotRun: the function failed.
        """
        from distributed.comm.core import CommClosedError

        try:
            answers = self.client.run(function, *arguments, workers=[self.address], on_error="return")
        except (OSError, ValueError, KeyError, TimeoutError) as error:
            raise WorkerLost(_said(error)) from error
        answer = answers.get(self.address)
        if answer is None and self.address not in answers:
            raise WorkerLost("it has left the cluster")
        if isinstance(answer, CouldNotRun):
            raise answer
        # The scheduler learns a moment later than the call that the connection is closed.
        if isinstance(answer, CommClosedError) or (isinstance(answer, OSError) and not self.is_there()):
            raise WorkerLost(_said(answer)) from answer
        if isinstance(answer, Exception):
            raise CouldNotRun(f"{self.name}: {_said(answer)}") from answer
        return answer  # type: ignore[no-any-return]

    def is_there(self) -> bool:
        """Whether the scheduler still knows the worker."""
        try:
            return self.address in self.client.nthreads()
        except (OSError, ValueError):
            return False

    def is_done(self) -> bool:
        """Whether the task has ended, or can no longer end because the worker is gone."""
        return self._task is None or self._task.done() or not self.is_there()

    def result(self) -> Any:
        """What the task returned.

        Raises:
            WorkerLost: the worker died before the task had ended.
            CouldNotRun: the task failed.
        """
        task = self._task
        assert task is not None
        if task.status == "finished":
            try:
                return task.result(timeout=RESULT_SECONDS_MAX)
            except (OSError, TimeoutError) as error:
                raise WorkerLost(_said(error)) from error
        if task.status == "error":
            raise _failure(task.exception())
        raise WorkerLost("its worker died or lost the scheduler")

    def release(self) -> None:
        """Gives the worker back."""
        if self._task is not None:
            with contextlib.suppress(Exception):
                self._task.cancel(force=True)
            self._task = None


@dataclass
class _Shared:
    """A value that workers have; a scheduler that is lost takes it along, so it is kept here, too."""

    value: object
    future: Future | None = None


def _failure(error: BaseException | None) -> Exception:
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return CouldNotRun(
            "each worker that ran this task died", "has it enough memory? The worker's own log says how it ended"
        )
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
