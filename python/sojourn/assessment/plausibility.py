"""Checks every figure of an answer for plausibility before it is printed.

Each figure is compared with the measurements. A figure that fails is withheld with the reason and a suggested fix, and
so is everything derived from it: an unknown bottleneck is a better answer than an absurd one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sojourn.assessment.held_out import UTILISATION_MAX
from sojourn.assessment.summary import Model, Step, Withheld
from sojourn.text import format

LIMIT_OVER_HIGHEST_MAX = 3.0
"""A limit further above the highest measured rate is too extrapolated."""
CALIBRATION_PLAUSIBLE = (0.2, 5.0)
"""The plausible range of the calibration factor: outside it, the mix was measured on a disturbed machine."""
FITTED_ERROR_MAX = 0.5
"""A model with a larger error on its own fitted steps does not describe the server."""
BOTTLENECK_UTILISATION_MIN = 0.05
"""A resource with a lower utilisation is not the bottleneck, whatever its computed limit."""
CONTRADICTED_FRACTION = 0.9
"""A limit below this share of a sustained rate is wrong."""

QUIET = "assess again on a machine with less other work"


def limit(name: str, rate: float, highest_measured: float, highest_kept_up: float) -> Withheld | None:
    """Checks the rate at which a resource alone would be the limit.

    Args:
        name: of the resource.
        rate: its limit, requests/s.
        highest_measured: the highest throughput of any step, requests/s.
        highest_kept_up: the highest offered rate that the server kept up with, requests/s.
    """
    figure = f"limit of the {name}"
    if not math.isfinite(rate) or rate <= 0:
        return Withheld(figure=figure, reason="it is not a finite rate above zero", cure=QUIET)
    if rate > LIMIT_OVER_HIGHEST_MAX * highest_measured:
        return beyond(figure, highest_measured)
    if rate < CONTRADICTED_FRACTION * highest_kept_up:
        return Withheld(
            figure=figure,
            reason=f"it would be {format.rate(rate)}, but the server kept up with {format.rate(highest_kept_up)}",
            cure=QUIET,
        )
    return None


def beyond(figure: str, highest_measured: float) -> Withheld:
    """Refuses a rate too far above the highest measured one, in requests/s."""
    return Withheld(
        figure=figure,
        reason=f"it would be more than {LIMIT_OVER_HIGHEST_MAX:g} times the highest rate that was measured "
        f"({format.rate(highest_measured)}): too far to extrapolate",
        cure="measure a system in which that resource does more",
    )


def model(fitted: Model, steps: Sequence[Step]) -> Withheld | None:
    """Checks the fitted model by its parameters and its fitted steps."""
    figure = "model and its predictions"
    low, high = CALIBRATION_PLAUSIBLE
    factor = fitted.calibration_factor.estimate
    if not low <= factor <= high:
        return Withheld(
            figure=figure,
            reason=f"by the steps the log's mix costs {format.number(factor)} times what the demands of single "
            "documents predict",
            cure=QUIET,
        )
    highest = max((step.requests_per_second.maximum for step in steps), default=0.0)
    if not 0 < fitted.capacity_requests_per_second <= LIMIT_OVER_HIGHEST_MAX * highest:
        return Withheld(
            figure=figure,
            reason=f"its capacity, {format.rate(fitted.capacity_requests_per_second)}, is out of proportion to the "
            f"highest rate that was measured, {format.rate(highest)}",
            cure=QUIET,
        )
    worst = _worst_fitted_error(fitted, steps)
    if worst is not None and not worst <= FITTED_ERROR_MAX:
        return Withheld(
            figure=figure,
            reason=f"its mean response time is {format.percent(worst)} off on a step that it was fitted on",
            cure=QUIET,
        )
    return None


def _worst_fitted_error(fitted: Model, steps: Sequence[Step]) -> float | None:
    """The largest error beyond what its measurement is known to."""
    errors = [
        abs(step.simulation_error.response_time_mean) - (step.mean_known_to(step.simulation) or 0.0)
        for step in steps
        if not step.held_out
        and fitted.utilisation(step) < UTILISATION_MAX
        and step.within_target
        and not step.generator_limited
        and step.simulation_error is not None
        and step.simulation_error.response_time_mean is not None
    ]
    return max(errors, default=None)
