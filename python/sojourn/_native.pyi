"""The native half of Sojourn: log import and queueing, written in Rust (`crates/py`)."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

# -- workload: crates/py/src/workload.rs

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
    @property
    def mean_requests_per_session(self) -> float: ...
    @property
    def mean_session_duration_seconds(self) -> float: ...
    def __len__(self) -> int: ...

def import_log(
    path: str,
    session_gap_seconds: float = 15.0,
    seed: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Trace: ...
def synthesise_log(path: str, seed: int, requests: int = 80_000, documents: int = 3_500) -> None: ...

# -- queueing: crates/py/src/queueing.rs

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
    demands: NDArray[np.float64],
    r: int | None = None,
    half_width: float = 0.02,
    jobs_max: int = ...,
    seed: int = 1,
    *,
    weights: NDArray[np.float64] | None = None,
    servers: int = 1,
    delta: float = 0.0,
    jobs_min: int = ...,
    progress: Callable[[int, int, float | None], object] | None = None,
) -> dict[str, Any]: ...
def simulate_system(
    system: str,
    half_width: float = 0.02,
    jobs_max: int = ...,
    seed: int = 1,
    *,
    jobs_min: int = ...,
    traces: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None,
    progress: Callable[[int, int, float | None], object] | None = None,
) -> dict[str, Any]: ...
def predict_system(system: str) -> dict[str, Any]: ...
def fit_laws(values: NDArray[np.float64]) -> list[dict[str, Any]]: ...
def fit_tail(values: NDArray[np.float64], fraction: float = 0.05) -> dict[str, Any]: ...

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
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
