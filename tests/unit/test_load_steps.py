"""How a step of a load run says what was offered."""

from __future__ import annotations

import pytest

from sojourn.loading.record import Step
from sojourn.loading.steps import StepResult


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"clients": 10_000}, "10,000 clients"),
        ({"offered_requests_per_second": 77_700.4}, "77,700/s"),
        ({"offered_requests_per_second": 0.5}, "0.5/s"),
        ({"offered_requests_per_second": 200_000, "ramp": True}, "200,000/s, mean of a ramp"),
        ({}, "as logged"),
    ],
)
def test_what_was_offered_is_said_as_people_write_it(record: dict[str, int | float | bool], said: str) -> None:
    assert StepResult(1, Step.model_construct(**record), {}, []).offered == said
