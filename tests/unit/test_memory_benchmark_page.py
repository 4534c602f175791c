"""The memory benchmark: what hpcc is told, the best of the rounds, and verdicts."""

from __future__ import annotations

from benchmarks.memory.page import Figure, judge, page
from benchmarks.memory.tools import MEBIBYTE, hpcc_settings

SIZE = 32 * MEBIBYTE
RUN = {
    "date": "2026-11-22",
    "command": "bench",
    "revision": "abc",
    "repetitions": 2,
    "seed": 1,
    "core": 1,
    "busy_fraction": 0.0,
    "environment": {"processor": "one | two"},
}
FIGURES = [
    Figure("sojourn", SIZE, {"copy-block": [4e9, 9e9], "copy-strided-load": [5e9, 6e9]}),
    Figure("sojourn", SIZE, {"copy-block": [1e9, 2e9], "copy-strided-load": [1e9, 2e9]}),
    Figure("mbw", SIZE, {"MCBLOCK": [3e9, 8.5e9], "words": [8e9]}),
    Figure("STREAM", SIZE, {}, "hpcc is not installed"),
]


def test_the_best_of_all_rounds_is_compared() -> None:
    first, second = judge(FIGURES)
    assert (first.word, round(first.ratio or 0, 3)) == ("met", 1.059)
    assert (second.word, second.ratio) == ("not measured", None)


def test_the_page_has_every_figure_and_what_is_missing() -> None:
    text = page(RUN, FIGURES, complete=True)
    assert "| sojourn copy-block | 9.00 (5.50) |" in text
    assert "- STREAM: hpcc is not installed" in text
    assert "Ours over mbw's: 32 MiB: 0.75" in text
    assert "one \\| two" in text


def test_hpcc_gets_one_process_and_the_order_asked_for() -> None:
    example = (
        "1            # of process grids (P x Q)\n2            Ps\n2            Qs\n1000         Ns\n80           NBs"
    )
    assert hpcc_settings(example, 3547).splitlines()[1:] == ["1 Ps", "1 Qs", "3547 Ns", "80           NBs"]
