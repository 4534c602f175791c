"""The native half of Sojourn: log import, histograms and queueing, written in Rust (`crates/py`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

# -- workload: crates/py/src/workload.rs, log.rs

@final
class Trace:
    """Documents and sessions of a log."""

    @staticmethod
    def load(path: str) -> Trace: ...
    def save(self, path: str) -> None: ...
    def report(self) -> dict[str, Any] | None: ...
    def characterise(self) -> dict[str, Any]: ...
    def documents(self) -> list[tuple[str, int, str, int]]: ...
    def transfer_sizes(self) -> NDArray[np.uint64]: ...
    def first_in_session(self) -> NDArray[np.bool_]: ...
    def names(self) -> list[str]: ...
    def requests(self) -> tuple[NDArray[np.uint32], NDArray[np.float64]]: ...
    @property
    def mean_requests_per_session(self) -> float: ...
    @property
    def mean_session_duration_seconds(self) -> float: ...
    def __len__(self) -> int: ...

@final
class StoredTrace:
    """A trace file whose documents alone are in memory."""

    @staticmethod
    def open(path: str) -> StoredTrace: ...
    def request_times(self) -> dict[str, Any] | None: ...
    def characterise(self) -> dict[str, Any]: ...
    def documents(self) -> list[tuple[str, int, str, int]]: ...
    def __len__(self) -> int: ...

@final
class LogOptions:
    """How a log is read; see sojourn.log.LogOptions."""

    def __init__(
        self,
        *,
        session_gap_seconds: float = 15.0,
        log_format: str | None = None,
        json_fields: list[str] = ...,
        statuses: list[str] = ...,
        methods: list[str] = ...,
        paths: list[str] = ...,
        hosts: list[str] = ...,
        clients: list[str] = ...,
        begin: str | None = None,
        end: str | None = None,
        path_map: list[str] = ...,
        host_map: list[str] = ...,
        keep_failed: bool = False,
        keep_queries: bool = False,
        keep_methods: bool = False,
        assumed_size_bytes: int | None = None,
        parsers: int | None = None,
        may_be_empty: bool = False,
    ) -> None: ...

def import_log(
    path: str | list[tuple[str, bool]],
    options: LogOptions | None = None,
    seed: int = 1,
    progress: Callable[[int, int], object] | None = None,
    pieces: Callable[[str], Iterator[tuple[bytes, int]] | None] | None = None,
) -> Trace: ...
def import_log_to_file(
    path: str | list[tuple[str, bool]],
    output: str,
    folder: str,
    options: LogOptions | None = None,
    seed: int = 1,
    progress: Callable[[int, int], object] | None = None,
    pieces: Callable[[str], Iterator[tuple[bytes, int]] | None] | None = None,
) -> dict[str, Any]: ...
def log_parts(path: str, options: LogOptions | None = None) -> int | None: ...

@final
class LogParser:
    """Parses a log, or the lines that begin in a range of a plain one, for an import that takes pieces."""

    def __init__(
        self, path: str, options: LogOptions | None = None, begin: int = 0, end: int | None = None
    ) -> None: ...
    def piece(self, text_bytes: int) -> bytes | None: ...
    @property
    def read_bytes(self) -> int: ...

def requests_of_log(
    path: str | list[tuple[str, bool]],
    options: LogOptions | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]: ...
def log_shapes() -> dict[str, dict[str, float]]: ...
def synthesise_log(path: str, seed: int, requests: int = 80_000, documents: int = 3_500) -> None: ...
def synthesise_shape(path: str, seed: int, figures: str, share: float) -> dict[str, float]: ...
def web99_files(load: int) -> list[tuple[str, int, int, float]]: ...

# -- caches: crates/py/src/cache.rs

@final
class CacheTrace:
    """Requests to simulate caches with."""

    def __init__(self, objects: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> None: ...
    @staticmethod
    def of_trace(trace: Trace) -> CacheTrace: ...
    @staticmethod
    def numbered(objects: NDArray[np.uint32], sizes: NDArray[np.uint64], object_count: int) -> CacheTrace: ...
    def objects(self) -> NDArray[np.uint32]: ...
    @property
    def object_count(self) -> int: ...
    @property
    def working_set_bytes(self) -> int: ...
    def sizes(self) -> NDArray[np.uint64]: ...
    def misses(
        self, policy: str, budget_bytes: int, admission: str = "all", object_bytes_max: int | None = None
    ) -> tuple[int, int]: ...
    def __len__(self) -> int: ...

def cache_policies() -> list[tuple[str, str]]: ...
def cache_admissions() -> list[tuple[str, str]]: ...

# -- histograms: crates/py/src/histogram.rs

@final
class Histogram:
    """Latencies in seconds at three significant digits, from 1 ns to 1 h; adding two equals recording once."""

    def __new__(cls) -> Histogram: ...
    def record(self, seconds: NDArray[np.float64], counts: NDArray[np.uint64]) -> None: ...
    def merge(self, other: Histogram) -> None: ...
    def recorded(self) -> tuple[NDArray[np.float64], NDArray[np.uint64]]: ...
    def quantile(self, fraction: float) -> float | None: ...
    def summary(self) -> dict[str, float | None]: ...
    def __len__(self) -> int: ...

def read_interval_log(log: str) -> list[tuple[str, float, float, Histogram]]: ...
def write_interval_log(start_time: float, rows: list[tuple[str, float, float, Histogram]]) -> str: ...

# -- queueing: crates/py/src/queueing

@final
class Distribution:
    """A distribution of a non-negative quantity."""

    @staticmethod
    def deterministic(value: float) -> Distribution: ...
    @staticmethod
    def exponential(mean: float) -> Distribution: ...
    @staticmethod
    def erlang(mean: float, stages: int) -> Distribution: ...
    @staticmethod
    def hyper_exponential(probability: float, means: tuple[float, float]) -> Distribution: ...
    @staticmethod
    def log_normal(mu: float, sigma: float) -> Distribution: ...
    @staticmethod
    def pareto(shape: float, low: float, high: float) -> Distribution: ...
    @staticmethod
    def empirical(values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Distribution: ...
    @staticmethod
    def mixture(parts: list[tuple[float, Distribution]]) -> Distribution: ...
    def affine(self, factor: float, offset: float) -> Distribution: ...
    @property
    def mean(self) -> float: ...
    @property
    def second_moment(self) -> float: ...
    @property
    def scv(self) -> float: ...
    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def quantile(self, p: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def sample(self, count: int, seed: int) -> NDArray[np.float64]: ...

@final
class ExactLps:
    """An LPS station with Poisson arrivals and phase-type demand, solved."""

    @staticmethod
    def of_law(arrival_rate: float, demand: Distribution, r: int) -> ExactLps: ...
    @staticmethod
    def of_moments(arrival_rate: float, mean: float, scv: float, r: int) -> ExactLps: ...
    @property
    def mean_response_time(self) -> float: ...
    @property
    def mean_wait(self) -> float: ...
    def survival(self, times: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def quantile(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def conditional_means(self, demands: NDArray[np.float64]) -> NDArray[np.float64]: ...

def lps_mean_response_time(
    arrival_rate: float,
    mean_demand: float,
    second_moment_demand: float,
    r: int | None = None,
    delta: float = 0.0,
) -> float: ...
def lps_conditional_mean(
    demands: NDArray[np.float64],
    arrival_rate: float,
    mean_demand: float,
    second_moment_demand: float,
    r: int | None = None,
    delta: float = 0.0,
) -> NDArray[np.float64]: ...
def lps_validity(
    arrival_rate: float, mean_demand: float, second_moment_demand: float, r: int | None = None
) -> dict[str, Any]: ...
def lps_heavy_traffic_mean(
    arrival_rate: float, mean_demand: float, second_moment_demand: float, r: int | None = None
) -> float: ...
def lps_exact(
    arrival_rate: float,
    mean_demand: float,
    scv_demand: float,
    r: int,
    demands: NDArray[np.float64] | None = None,
) -> dict[str, Any]: ...
def simulate_station(
    arrival_times: NDArray[np.float64],
    demands: NDArray[np.float64],
    r: int | None = None,
    servers: int = 1,
) -> NDArray[np.float64]: ...
def simulate_poisson(
    arrival_rate: float,
    demands: NDArray[np.float64] | Distribution,
    r: int | None = None,
    half_width: float = 0.02,
    jobs_max: int = ...,
    seed: int = 1,
    *,
    weights: NDArray[np.float64] | None = None,
    servers: int = 1,
    delta: float = 0.0,
    jobs_min: int = ...,
    targets: list[str] = ...,
    replications: int = 1,
    progress: Callable[[int, int, float | None, float | None], object] | None = None,
) -> dict[str, Any]: ...
def simulate_system(
    system: str,
    half_width: float = 0.02,
    jobs_max: int = ...,
    seed: int = 1,
    *,
    jobs_min: int = ...,
    targets: list[str] = ...,
    replications: int = 1,
    traces: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None,
    progress: Callable[[int, int, float | None, float | None], object] | None = None,
) -> dict[str, Any]: ...
def simulate_system_in_groups(
    system: str,
    advance: Callable[[list[int]], list[bytes]],
    half_width: float = 0.02,
    jobs_max: int = ...,
    seed: int = 1,
    *,
    jobs_min: int = ...,
    targets: list[str] = ...,
    replications: int = 1,
    progress: Callable[[int, int, float | None, float | None], object] | None = None,
) -> dict[str, Any]: ...
def replication_groups(replications: int) -> int: ...

class ReplicationGroup:
    """Some of the replications of a simulation, on a thread of their own."""

    def __init__(
        self,
        system: str,
        index: int,
        half_width: float,
        jobs_max: int,
        seed: int,
        *,
        jobs_min: int,
        targets: list[str],
        replications: int,
    ) -> None: ...
    def advance(self, looks: list[int]) -> bytes: ...

def predict_system(system: str, percentiles: bool = True) -> dict[str, Any]: ...
def system_with_settings(system: str, settings: Sequence[str], /) -> str: ...
def system_structure(system: str) -> dict[str, Any]: ...
def system_document(system: str, class_: str, /) -> Distribution | None: ...
def system_demands(system: str, class_: str, sizes: NDArray[np.float64], /) -> list[list[NDArray[np.float64]]]: ...
def fit_laws(values: NDArray[np.float64]) -> list[dict[str, Any]]: ...
def fit_moments(values: NDArray[np.float64]) -> dict[str, Any]: ...
def fit_tail(values: NDArray[np.float64], fraction: float = 0.05) -> dict[str, Any]: ...
def fit_usl(
    loads: NDArray[np.float64], throughputs: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> dict[str, Any]: ...

# -- both: crates/py/src/sessions.rs

def simulate_sessions(
    trace: Trace,
    requests_per_second: float,
    seconds: float,
    think_scale: float,
    demands: NDArray[np.float64],
    r: int | None,
    latency: float,
    seed: int,
    quota: tuple[float, float] | None = None,
    wakeup: float = 0.0,
    client: float = 0.0,
    sending: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def simulate_step(
    trace: Trace,
    rates: list[float],
    step_seconds: float,
    settle_seconds: float,
    think_scale: float,
    demands: NDArray[np.float64],
    r: int | None,
    latency: float,
    seed: int,
    quota: tuple[float, float] | None = None,
    wakeup: float = 0.0,
    client: float = 0.0,
    sending: float = 0.0,
    station_interruptions: Sequence[tuple[float, float]] = (),
    client_interruptions: Sequence[tuple[float, float]] = (),
    station_speeds: Sequence[tuple[float, float]] = (),
    client_speeds: Sequence[tuple[float, float]] = (),
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
