"""The time that is left of an application's assessment."""

from sojourn.applications.climb import CLIMB_FRACTIONS
from sojourn.applications.request import Effort
from sojourn.applications.schedule import CHANGED_STEPS, EXPLORED_STEPS, OVERHEAD_SECONDS, Schedule

EFFORT = Effort(step_seconds=3.0, settle_seconds=1.0, climbs=2, mixes=3)
FRACTIONS = len(CLIMB_FRACTIONS)


def test_what_is_left_follows_from_the_steps_so_far() -> None:
    schedule = Schedule.of(EFFORT, 4, FRACTIONS)
    steps = EXPLORED_STEPS + 2 * FRACTIONS + 1 + 3 * 4
    assert schedule.left_seconds() == steps * (4.0 + OVERHEAD_SECONDS)
    schedule.did("explore", 6.0)
    assert schedule.left_seconds() == (steps - 1) * 6.0
    assert schedule.share("explore") == 1 / EXPLORED_STEPS


def test_a_rise_that_goes_on_has_always_a_step_to_come() -> None:
    schedule = Schedule.of(EFFORT, 4, FRACTIONS)
    for _ in range(2 * EXPLORED_STEPS):
        schedule.did("explore", 5.0)
    assert schedule.to_come["explore"] == 1
    schedule.ended("explore")
    assert schedule.left_seconds() == (2 * FRACTIONS + 1 + 3 * 4) * 5.0
    for kind in ("climb", "mix", "overload"):
        schedule.ended(kind)
    assert schedule.left_seconds() is None
    # What nobody planned, as the system's recovery after a failure.
    schedule.did("recovery", 5.0)
    assert schedule.share("recovery") is None


def test_a_change_is_measured_from_near_the_knee_on() -> None:
    schedule = Schedule.of_change(EFFORT, FRACTIONS)
    assert sum(schedule.to_come.values()) == CHANGED_STEPS + 2 * FRACTIONS
