"""A run against an earlier one: has the capacity fallen by more than chance?

Both capacities are intervals. The change lies between the least and the most that two values within them give; it is
a fall where even the most is one. So runs that were not measured closely enough say nothing, and a fall is not
invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from sojourn.applications.summary import SUMMARY, ApplicationSummary, CapacityChange, Comparison
from sojourn.failure import CouldNotRun
from sojourn.results.records import Interval

KNEE = "capacity"


def read(path: Path) -> ApplicationSummary:
    """The summary of a run's folder, or of its file.

    Raises:
        CouldNotRun: there is none.
    """
    file = path / SUMMARY if path.is_dir() else path
    try:
        return ApplicationSummary.model_validate_json(file.read_text())
    except OSError as error:
        raise CouldNotRun(
            f"--baseline {path}: {error.strerror or error}", f"give the folder of an earlier run, which has {SUMMARY}"
        ) from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise CouldNotRun(
            f"--baseline {path} is no assessment of an application", "give a run of sojourn assess LOG --target URL"
        ) from error


def compare(now: ApplicationSummary, before: ApplicationSummary, name: str, allowed: float) -> Comparison:
    """The capacities of two runs: of the knee, and of each objective that both have.

    Args:
        now: the run.
        before: the earlier one.
        name: what the earlier one is called.
        allowed: a fall up to this share is none.
    """
    changes = []
    if now.knee is not None and before.knee is not None:
        one, other = now.knee, before.knee
        changes.append(
            _change(
                KNEE,
                (other.requests_per_second, one.requests_per_second),
                (other.is_lower_bound, one.is_lower_bound),
                allowed,
            )
        )
    earlier = {each.objective: each for each in before.objectives}
    for objective in now.objectives:
        known = earlier.get(objective.objective)
        if known is None or known.capacity is None or (objective.capacity is None and objective.holds is None):
            continue
        nothing = Interval(estimate=0.0, low=0.0, high=0.0)
        changes.append(
            _change(
                objective.objective,
                (known.capacity, objective.capacity or nothing),
                (known.is_lower_bound, objective.is_lower_bound),
                allowed,
            )
        )
    return Comparison(baseline=name, differences=_differences(now, before), changes=changes)


def _change(
    what: str, capacities: tuple[Interval, Interval], are_bounds: tuple[bool, bool], allowed: float
) -> CapacityChange:
    before, now = capacities
    is_bound_before, is_bound_now = are_bounds

    def relative(new: float, old: float) -> float:
        return new / old - 1.0 if old > 0 else 0.0

    # A lower bound may be anything above.
    high = None if is_bound_now else relative(now.high, before.low)
    low = None if is_bound_before else relative(now.low, before.high)
    fell = high is not None and high < -allowed
    known = fell or (low is not None and low > -allowed) or (not is_bound_now and not is_bound_before)
    return CapacityChange(
        what=what,
        before=before,
        now=now,
        change=None if is_bound_now or is_bound_before else relative(now.estimate, before.estimate),
        change_low=low,
        change_high=high,
        fell=fell if known else None,
    )


def _differences(now: ApplicationSummary, before: ApplicationSummary) -> list[str]:
    """In what the runs differ beside the system: then they do not say that it has changed."""
    found = []
    names = [{each.name for each in summary.endpoints} for summary in (now, before)]
    if names[0] != names[1]:
        found.append("the endpoints")
    if (now.scenario_name is None) != (before.scenario_name is None):
        found.append("a log here, a scenario there")
    if (now.login is None) != (before.login is None):
        found.append("users who are logged in")
    if not before.complete:
        found.append("the baseline is incomplete")
    return found


def in_words(change: CapacityChange) -> str:
    """A change with its interval."""
    rates = f"{_rates(change.before)} before, {_rates(change.now)} now"
    if change.fell is None:
        return f"{change.what}: {rates}: a load that did not reach its end says nothing of a change"
    if change.change is None:
        return f"{change.what}: {rates}: " + ("it fell" if change.fell else "it has not fallen")
    ends = f" ({change.change_low:+.0%} to {change.change_high:+.0%})" if change.change_low is not None else ""
    word = "it fell" if change.fell else "no fall is shown"
    return f"{change.what}: {rates}: {change.change:+.1%}{ends}: {word}"


def _rates(interval: Interval) -> str:
    return f"{interval.estimate:,.4g}/s ({interval.low:,.4g} to {interval.high:,.4g})"


def sentences(comparison: Comparison) -> Sequence[str]:
    """The comparison, a line each."""
    said = [f"against {comparison.baseline}: {in_words(each)}" for each in comparison.changes]
    if comparison.differences:
        said.append(f"against {comparison.baseline}: differs also in {', '.join(comparison.differences)}")
    return said
