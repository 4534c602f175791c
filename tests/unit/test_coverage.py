"""The share of a log that its static copy stands for."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.workload.coverage import PathCount, coverage


def counted(**values: Any) -> dict[str, Any]:
    """An import's report with its coverage: a log of 5,499 posted forms and 197 pages."""
    posts = {"class": "method", "requests": 5499, "bytes": 9000, "top_paths": [{"path": "/form", "requests": 5499}]}
    return {
        "coverage": {
            "requests": 5696,
            "bytes": 10_000,
            "covered_requests": 197,
            "covered_bytes": 1000,
            "peak_requests_per_second": 12.5,
            "busiest_minute": {"requests": 750, "covered_requests": 15},
            "dynamic": [posts],
            "left_out": [],
            **values,
        }
    }


def test_a_log_of_posted_forms_is_hardly_covered() -> None:
    found = coverage(counted())
    assert found is not None
    assert found.requests_fraction == pytest.approx(197 / 5696)
    assert f"{found.requests_fraction:.1%}" == "3.5%"
    assert found.bytes_fraction == pytest.approx(0.1)
    assert (found.peak_requests_per_second_all, found.peak_requests_fraction) == (12.5, 0.02)
    (posts,) = found.dynamic
    assert (posts.name, posts.count, posts.bytes) == ("method", 5499, 9000)
    assert posts.share == found.dynamic_fraction == pytest.approx(5499 / 5696)
    assert posts.top_paths == (PathCount("/form", 5499),)


def test_a_log_without_bytes_has_no_share_of_them() -> None:
    found = coverage(counted(bytes=0, covered_bytes=0))
    assert found is not None
    assert found.bytes_fraction is None


def test_an_import_of_an_earlier_version_gives_what_it_counted() -> None:
    skipped = {"with_query": 10, "other_method": 20, "failed": 5, "partial": 0, "without_target": 7}
    found = coverage({"requests": 65, "failed_requests": 0, "skipped": skipped})
    assert found is not None
    assert (found.requests_all, found.requests_fraction) == (100, 0.65)
    assert [(each.name, each.count, each.share) for each in found.dynamic] == [("method", 20, 0.2), ("query", 10, 0.1)]
    assert [each.name for each in found.left_out] == ["failed"]
    assert found.bytes_fraction is found.peak_requests_per_second_all is None


def test_an_assessment_that_never_read_its_log_has_none() -> None:
    assert coverage({}) is None
