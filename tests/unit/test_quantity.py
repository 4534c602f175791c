import pytest

from sojourn.failure import CouldNotRun
from sojourn.text import quantity


@pytest.mark.parametrize(
    ("text", "expected"), [("200ms", 0.2), ("1.5s", 1.5), ("2 min", 120.0), ("10us", 1e-5), (".5h", 1800.0)]
)
def test_durations(text: str, expected: float) -> None:
    assert quantity.seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize(("text", "expected"), [("1KiB", 1024), ("1kB", 1000), ("2GiB", 2**31), ("20 GB", 20 * 10**9)])
def test_sizes(text: str, expected: int) -> None:
    assert quantity.size_bytes(text) == expected


def test_bandwidths() -> None:
    assert quantity.bits_per_second("100Mbit/s") == 1e8


@pytest.mark.parametrize("text", ["200", "", "ms", "-5ms", "0ms", "5 parsecs", "1e3ms", "200ms extra"])
def test_what_is_no_duration_is_refused_with_a_cure(text: str) -> None:
    with pytest.raises(CouldNotRun) as refusal:
        quantity.seconds(text)
    assert refusal.value.hint is not None
    assert "200ms" in refusal.value.hint


@pytest.mark.parametrize(
    ("text", "expected"), [("5%", 0.05), ("0.05", 0.05), (" .5 % ", 0.005), ("100%", 1.0), ("0", 0.0)]
)
def test_shares_of_a_whole(text: str, expected: float) -> None:
    assert quantity.fraction(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "%", "-1%", "101%", "nan", "inf", "5 percent"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(CouldNotRun, match="is not a share"):
        quantity.fraction(text)
