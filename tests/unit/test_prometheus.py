"""The writer of Prometheus' text format, read back by the reader of applications' metrics."""

from __future__ import annotations

import math

import pytest

from sojourn.text.prometheus import Exposition
from sojourn.tiers.prometheus import parse


def test_values_are_read_back_exactly() -> None:
    written = Exposition("x_")
    values = [0.1 + 0.2, 1.7e18 + 1, float(2**53 - 1), -3.0, math.inf]
    written.family("a", "gauge", "Numbers.", [({"n": str(at)}, value) for at, value in enumerate(values)])
    written.summary("b_seconds", "Times.", {"0.5": 0.25, "1": None}, 12.5, 50)
    found = parse(written.text())
    assert [found[f'x_a{{n="{at}"}}'] for at in range(len(values))] == values
    assert found['x_b_seconds{quantile="0.5"}'] == 0.25
    assert (found["x_b_seconds_sum"], found["x_b_seconds_count"]) == (12.5, 50)
    assert not any('quantile="1"' in name for name in found)


def test_a_family_without_a_value_is_left_out_and_a_reason_is_a_comment() -> None:
    written = Exposition("x_")
    written.family("a", "gauge", "Nothing.", [({}, None)])
    written.unavailable("b", "no\nport")
    assert written.text() == "# x_b is unavailable: no port\n"


@pytest.mark.parametrize(
    ("label", "escaped"), [('say "hi"', r"say \"hi\""), ("a\\b", r"a\\b"), ("two\nlines", r"two\nlines")]
)
def test_labels_and_help_are_escaped(label: str, escaped: str) -> None:
    written = Exposition("x_")
    written.family("a", "counter", "C:\\dir and\nmore", [({"cause": label, "k": "v"}, 3)])
    assert written.text().splitlines() == [
        r"# HELP x_a C:\\dir and more",
        "# TYPE x_a counter",
        f'x_a{{cause="{escaped}",k="v"}} 3',
    ]
