"""Requests of a log in endpoints: identifiers are generalised, pages are not, and nothing is lost or counted twice."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.applications.coverage import coverage, expected_statuses
from sojourn.applications.endpoints import ENDPOINTS_MAX, OTHER, REFUSED, Endpoint, endpoints, matching
from sojourn.applications.requests import Asked, LogRequests
from sojourn.failure import CouldNotRun


def asked(target: str, count: int = 10, method: str = "GET", status: int = 200) -> Asked:
    return Asked(method, target, status, count, count * 1000)


def names(*rows: Asked, given: tuple[str, ...] = ()) -> dict[str, int]:
    return {each.name: each.count for each in endpoints(rows, given)}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["/users/7", "/users/8/orders", "/users/19/orders"], {"GET /users/{id}": 10, "GET /users/{id}/orders": 20}),
        (["/p/old-lamp-7", "/p/tall-rug-91"], {"GET /p/{slug}": 20}),
        (["/i/1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"], {"GET /i/{uuid}": 10}),
        (["/v/9f86d081884c7d659a2feaa0c55ad015", "/v/00aa11bb22cc33dd"], {"GET /v/{hash}": 20}),
        (["/blog/2026-01-02", "/blog/2026-01"], {"GET /blog/{date}": 20}),
        (["/img/12.jpg", "/img/99.JPG"], {"GET /img/{id}.jpg": 20}),
        (["/search?q=a", "/search?q=b&page=2"], {"GET /search?page&q": 20}),
        (
            ["/i.php?action=list", "/i.php?action=edit&n=4"],
            {"GET /i.php?action=list": 10, "GET /i.php?action=edit&n": 10},
        ),
        (["/", "/login", "/cart"], {"GET /": 10, "GET /login": 10, "GET /cart": 10}),
        (["/v1/a", "/v2/a"], {"GET /v1/a": 10, "GET /v2/a": 10}),
        (["/a/{id}"], {"GET /a/%7Bid}": 10}),
        (["a.html", "1.html"], {"GET /a.html": 10, "GET /{id}.html": 10}),
        (["/map?103,122", "/map?5,6"], {"GET /map": 20}),
        (["*"], {"GET /*": 10}),
        (["/?a%5B/b%5D=1"], {"GET /?a[/b]": 10}),
        (["/?a%0Ab=1", "/?action=%0a"], {r"GET /?a\nb": 10, r"GET /?action=\n": 10}),
        (["/a\x1bb/c"], {r"GET /a\x1bb/c": 10}),
    ],
)
def test_identifiers_are_generalised_and_pages_are_not(targets: list[str], expected: dict[str, int]) -> None:
    assert names(*map(asked, targets)) == expected


def test_many_names_below_one_parent_are_names_of_things() -> None:
    words = [f"/category/{word}s" for word in "abcdefghijklm"]
    assert names(*map(asked, words)) == {"GET /category/{name}": 130}
    assert names(*map(asked, words), asked("/category/all", 100)) == {
        "GET /category/{name}": 130,
        "GET /category/all": 100,
    }


def test_what_was_never_found_is_one_endpoint_and_what_needs_a_login_is_not() -> None:
    found = names(
        asked("/wp-login.php", status=404), asked("/.env", status=403), asked("/account"), asked("/account", status=401)
    )
    assert found == {f"GET {REFUSED}": 20, "GET /account": 20}


def test_methods_are_apart_and_rare_requests_together() -> None:
    found = names(asked("/cart", 5000), asked("/cart", 3000, "POST", 303), asked("/a", 1), asked("/b", 1))
    assert found == {"GET /cart": 5000, "POST /cart": 3000, f"GET {OTHER}": 2}


def test_given_endpoints_go_first_and_may_have_names() -> None:
    rows = (asked("/api/a"), asked("/api/b?x=1"), asked("/page"), asked("/api/a", method="POST"))
    assert names(*rows, given=("GET /api/*",)) == {"GET /api/*": 20, "GET /page": 10, "POST /api/a": 10}
    assert [each.name for each in matching("GET /p*", endpoints(rows))] == ["GET /page"]
    with pytest.raises(CouldNotRun, match="no endpoint"):
        names(*rows, given=("nonsense",))


def test_a_pattern_of_all_methods_gives_each_a_name_of_its_own() -> None:
    rows = (asked("/api/a", 900), asked("/api/a", 10, method="HEAD"), asked("/", 100))
    assert names(*rows, given=("api=/api/*",)) == {"api": 900, "HEAD api": 10, "GET /": 100}
    assert [each.count for each in matching("api", endpoints(rows, ("api=/api/*",)))] == [900]


segment = st.one_of(
    st.sampled_from(["api", "users", "list", "a.css", "login", "x y", "%20", "ü", "{id}", ""]),
    st.integers(0, 10**12).map(str),
    st.uuids().map(str),
    st.text(alphabet="abc019-_.~%", min_size=1, max_size=24),
)
targets = st.builds(
    lambda parts, query: "/" + "/".join(parts) + query,
    st.lists(segment, max_size=4),
    st.sampled_from(["", "?", "?a=1", "?a=2&b=", "?action=show", "?action=1&x=%zz", "?=&&"]),
)
rows_of_a_log = st.lists(
    st.builds(
        asked,
        targets,
        st.integers(1, 10**6),
        st.sampled_from(["GET", "POST", "HEAD"]),
        st.sampled_from([200, 304, 302, 404, 500]),
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda row: (row.method, row.target, row.status),
)


@given(rows_of_a_log, st.sampled_from([(), ("users=/users*",), ("/api*", "GET /*.css")]), st.randoms())
def test_each_request_is_in_exactly_one_endpoint_in_whatever_order_they_came(
    rows: list[Asked], patterns: tuple[str, ...], order: random.Random
) -> None:
    found = endpoints(rows, patterns)
    assert sorted(row for each in found for row in map(repr, each.requests)) == sorted(map(repr, rows))
    assert len({each.name for each in found}) == len(found) <= 3 * (ENDPOINTS_MAX + 1 + len(patterns))
    assert all(row.method == each.method for each in found for row in each.requests)
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert endpoints(shuffled, patterns) == found


@given(rows_of_a_log, st.integers(1, 10**9))
def test_another_number_in_a_path_is_no_other_endpoint(rows: list[Asked], number: int) -> None:
    rows = [*rows, asked("/things/5/x", 10**9)]
    more = asked(f"/things/{number}/x", 10**9) if number != 5 else asked("/things/6/x", 10**9)
    before, after = endpoints(rows), endpoints([*rows, more])
    assert len(after) <= len(before)
    assert sum(each.count for each in after) == sum(each.count for each in before) + 10**9


@given(rows_of_a_log)
def test_coverage_and_what_is_left_out_are_all_requests(rows: list[Asked]) -> None:
    log = LogRequests(rows, sum(row.count for row in rows), 0, 0, 1.0, 1.0)
    covered = coverage(log, endpoints(rows), ("GET",))
    assert covered.covered_requests + sum(each.count for each in covered.left_out) == log.requests
    assert all(row.method == "GET" and row.status < 500 for each in covered.endpoints for row in each.requests)
    assert all(statuses for each in covered.endpoints for statuses in expected_statuses(each).values())


def test_a_status_that_was_an_accident_is_not_expected() -> None:
    rows = (asked("/a", 1000), asked("/a", 500, status=304), asked("/a", 400, status=302), asked("/a", 1, status=404))
    assert expected_statuses(Endpoint("GET /a", "GET", rows)) == {"/a": [200, 302]}
