"""One open station of limited processor sharing: the closed forms, and the exact solution for phase-type demand.

At most r jobs share the server while the others wait in order: r = 1 is FIFO (Pollaczek-Khinchine), r = None processor
sharing. `Lps` needs two moments and is approximate between these ends; `ExactLps` is exact and needs a phase-type
distribution.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from sojourn import _native
from sojourn.queueing.arrays import Array, vector
from sojourn.queueing.distributions import Distribution


class Validity(TypedDict):
    """The accuracy of Eq. 2.2."""

    exact: bool
    relative_error_max: float
    """The largest relative error of the mean for any law with these moments: rare and huge demands."""
    relative_error_found: float | None
    """The largest that a sweep over common distributions found; None beyond C² = 25."""
    note: str


class Lps:
    """M/G/1/LPS-r by Eq. 2.1 and 2.2 of the thesis, after Avi-Itzhak and Halfin (1989).

    Args:
        arrival_rate: λ in 1/s.
        demand: the distribution of the service demand in seconds, or its first two moments (s, s²).
        r: the most jobs in service; None for no limit.
        delta: Δ, seconds added to every response.

    Raises:
        ValueError: if λ E[S] ≥ 1, or a parameter is out of its domain.
    """

    def __init__(
        self,
        arrival_rate: float,
        demand: Distribution | tuple[float, float],
        r: int | None = None,
        delta: float = 0.0,
    ) -> None:
        moments = (demand.mean, demand.second_moment) if isinstance(demand, Distribution) else demand
        self.arrival_rate = arrival_rate
        self.mean_demand, self.second_moment_demand = moments
        self.r = r
        self.delta = delta
        # Computed now, so that invalid parameters are refused at once.
        self.mean_response_time = _native.lps_mean_response_time(arrival_rate, *moments, r, delta)
        """E[R] in seconds, Eq. 2.2 with Δ: exact for r = 1, r = None and exponential demand."""

    @property
    def utilisation(self) -> float:
        """λ E[S]."""
        return self.arrival_rate * self.mean_demand

    @property
    def saturation_per_second(self) -> float:
        """1 / E[S]."""
        return 1 / self.mean_demand

    @property
    def mean_workload(self) -> float:
        """E[V] = λ E[S²] / 2(1−ρ) in seconds: the same for every r (Pollaczek-Khinchine)."""
        return self.arrival_rate * self.second_moment_demand / (2 * (1 - self.utilisation))

    @property
    def heavy_traffic_mean_response_time(self) -> float:
        """E[R] in seconds from an exponential workload (after Zhang and Zwart 2008); low where Eq. 2.2 is high."""
        moments = (self.mean_demand, self.second_moment_demand)
        return _native.lps_heavy_traffic_mean(self.arrival_rate, *moments, self.r) + self.delta

    @property
    def conditional_slope_asymptotic(self) -> float:
        """The true slope of E[R | S = x] for large x, min(r, 1/(1−ρ)); that of Eq. 2.1 is smaller."""
        return min(math.inf if self.r is None else self.r, 1 / (1 - self.utilisation))

    def conditional_mean(self, demands: ArrayLike) -> Array:
        """E[R | S = x] in seconds for each demand x in seconds, Eq. 2.1."""
        moments = (self.mean_demand, self.second_moment_demand)
        return _native.lps_conditional_mean(vector(demands, "demands"), self.arrival_rate, *moments, self.r, self.delta)

    def validity(self) -> Validity:
        """The possible error of the mean, from comparison with exact results."""
        moments = (self.mean_demand, self.second_moment_demand)
        said: Validity = _native.lps_validity(self.arrival_rate, *moments, self.r)  # type: ignore[assignment]
        return said


class ExactLps:
    """M/PH/1/LPS-r without approximation: quasi-birth-death process, tagged job, uniformisation.

    Args:
        arrival_rate: λ in 1/s.
        demand: an exponential, Erlang or hyper-exponential law in seconds; or mean (s) and squared coefficient of
            variation, for the phase-type law that has them.
        r: the most jobs in service.

    Raises:
        ValueError: if λ E[S] ≥ 1, the law is not of phase type, or r and its phases make too many states.
    """

    def __init__(self, arrival_rate: float, demand: Distribution | tuple[float, float], r: int) -> None:
        if isinstance(demand, Distribution):
            self._solved = _native.ExactLps.of_law(arrival_rate, demand.native, r)
        else:
            self._solved = _native.ExactLps.of_moments(arrival_rate, *demand, r)

    @property
    def mean_response_time(self) -> float:
        """E[R] in seconds."""
        return self._solved.mean_response_time

    @property
    def mean_wait(self) -> float:
        """E[W] in seconds: the wait before service."""
        return self._solved.mean_wait

    def survival(self, times: ArrayLike) -> Array:
        """P(R > t) for each t in seconds."""
        return self._solved.survival(vector(times, "times"))

    def quantile(self, p: ArrayLike) -> Array:
        """The response time in seconds that a share p of the jobs does not exceed.

        Raises:
            ValueError: if a p is not from 0 to 0.9999: the tail beyond is not followed.
        """
        probabilities = vector(p, "p")
        if not bool(np.all((probabilities >= 0) & (probabilities <= 0.9999))):
            raise ValueError("every p must be from 0 to 0.9999")
        return self._solved.quantile(probabilities)

    def conditional_mean(self, demands: ArrayLike) -> Array:
        """E[R | S = x] in seconds for each demand x in seconds."""
        return self._solved.conditional_means(vector(demands, "demands"))
