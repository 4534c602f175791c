"""How late the generator may send in a search follows what is searched for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sojourn.loading.load_search import LoadSearch
from sojourn.loading.result import LoadResult
from sojourn.loading.run import option
from sojourn.loading.threshold import Threshold


@pytest.mark.parametrize(
    ("thresholds", "options", "limit"),
    [
        (("p95<300ms",), (), "0.03s"),
        (("p99<1s", "ttfb.p95<200ms"), (), "0.02s"),
        (("p95<20ms",), (), "0.01s"),
        (("p95<300ms",), ("--lag-limit", "5ms"), "5ms"),
        (("rps>100/s",), (), None),
        (("p95>300ms",), (), None),
    ],
)
def test_it_follows_the_tightest_target(thresholds: Sequence[str], options: Sequence[str], limit: str | None) -> None:
    asked: list[Sequence[str]] = []

    def runner(words: Sequence[str]) -> LoadResult:
        asked.append(words)
        raise KeyboardInterrupt

    words = ("http://host/", "--rate", "100", *options)
    search = LoadSearch(words, [Threshold.parse(text) for text in thresholds], runner, budget_seconds=1, precision=0.1)
    assert search.run().ending == "interrupted"
    assert [option(words, "--lag-limit") for words in asked] == [limit]
