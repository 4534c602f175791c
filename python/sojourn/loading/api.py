"""Load runs from Python: the command line's options as keywords, results as dataclasses and NumPy arrays.

The table of parameters is the engine's own (`sojourn load --help`): `--think-time 2s` is `think_time="2s"`, options
without a value are `True`, repeatable options take a list. The engine refuses unknown options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sojourn.loading import comparison, folder
from sojourn.loading.comparison import Comparison, Group
from sojourn.loading.load_search import LoadSearch
from sojourn.loading.result import LoadResult
from sojourn.loading.run import run_load
from sojourn.loading.search import Found, Trial
from sojourn.loading.threshold import Threshold
from sojourn.text import quantity

Value = str | int | float | bool | Path
"""The type of an option's value. Durations are texts with a unit (`"30s"`), or numbers of seconds for `duration` and
`warm_up`.
"""


def load(
    url: str,
    *,
    clients: int | None = None,
    rate: float | str | None = None,
    duration: float | str = 10.0,
    warm_up: float | str = 1.0,
    cluster: str | None = None,
    insecure_cluster: bool = False,
    **options: Value | Sequence[Value] | None,
) -> LoadResult:
    """Loads a server and returns what its clients saw.

    Args:
        url: what to ask for, `http://HOST[:PORT][/PATH]`.
        clients: a closed loop of so many clients.
        rate: an open loop of so many arrivals per second. One of the two, or `schedule`, has to be given.
        duration: how long to measure, in seconds.
        warm_up: how long to run before that, in seconds.
        cluster: the machines that generate the load, as `--cluster` names them; this one if not given.
        insecure_cluster: whether to accept a scheduler without authentication beyond this machine.
        **options: any other option of `sojourn load`, its hyphens as underscores.

    Returns:
        The result. Times are in seconds, rates per second; `timeline` and `interval_table` are columns (NumPy arrays)
        that `polars.DataFrame` and `pandas.DataFrame` take.

    Raises:
        CouldNotRun: the engine refuses the options or cannot begin.
    """
    plan = {"clients": clients, "rate": rate, "duration": duration, "warm_up": warm_up}
    words = [url, *_words({**plan, **options})]
    if cluster is None:
        return run_load(words)
    from sojourn.cluster import dask_cluster, target
    from sojourn.loading.fleet import Fleet

    with dask_cluster.opened(target.parse(cluster, insecure=insecure_cluster)) as opened:
        return Fleet(opened).run(words)


def search(
    url: str,
    *thresholds: str,
    clients: int | None = None,
    rate: float | str | None = None,
    duration: float | str = 5.0,
    warm_up: float | str = 1.0,
    precision: float = 0.05,
    time: float | str = "15m",
    told: Callable[[Trial, Found], None] = lambda trial, found: None,
    **options: Value | Sequence[Value] | None,
) -> Found:
    """Finds the largest load under which all thresholds hold.

    Args:
        url: what to ask for.
        *thresholds: as `"p95<200ms"`; `error_rate<1%` is one too, unless one on errors is given.
        clients: how many clients to begin with, to search over clients.
        rate: what rate to begin with, per second, to search over rates.
        duration: how long to measure in each run, in seconds.
        warm_up: how long to run before that, in seconds.
        precision: how wide the 95 % interval may be, as a share of the capacity.
        time: how long to search at the most, in seconds.
        told: is called with every run as it ends, and the result so far.
        **options: any other option of `sojourn load`.

    Returns:
        The capacity with its interval, and all runs.
    """
    plan = {"clients": clients, "rate": rate, "duration": duration, "warm_up": warm_up}
    words = [url, *_words({**plan, **options})]
    judged = [Threshold.parse(text) for text in thresholds]
    budget = quantity.seconds(_duration(time))
    found = LoadSearch(words, judged, run_load, budget_seconds=budget, precision=precision, told=told)
    return found.run()


Run = LoadResult | str | Path


def compare(first: Run | Iterable[Run], second: Run | Iterable[Run]) -> Comparison:
    """Compares the second run, or group of repetitions, with the first.

    Args:
        first: a result, a run folder, a folder of repetitions, a file with a JSON result, or several of these.
        second: the same.

    Returns:
        Each metric's ratio with its 95 % confidence interval and what it shows.
    """
    return comparison.compare(_group("first", first), _group("second", second))


def _group(name: str, runs: Run | Iterable[Run]) -> Group:
    given = [runs] if isinstance(runs, LoadResult | str | Path) else [*runs]
    each: list[Run] = []
    for run in given:
        each += [run] if isinstance(run, LoadResult) else folder.repetitions(Path(run))
    paths = [Path(run) for run in each if not isinstance(run, LoadResult)]
    environments = [folder.environment(path) for path in paths if path.is_dir()]
    results = [run if isinstance(run, LoadResult) else folder.read(Path(run)) for run in each]
    return Group(name, results, [known for known in environments if known])


def _words(options: dict[str, Value | Sequence[Value] | None]) -> list[str]:
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        values: Sequence[Value] = value if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]
        for each in values:
            if each is None or each is False:
                continue
            text = _duration(each) if name in ("duration", "warm_up") else str(each)
            words += [flag] if each is True else [flag, text]
    return words


def _duration(value: Value) -> str:
    return value if isinstance(value, str) else f"{value}s"
