"""Scenarios against an application with logins, tokens against forged requests, cookies and redirections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import run
from login_scenario import login_scenario
from shop_server import shop

SCENARIO = (
    login_scenario("Hello ${name}")
    + """
[[request]]
name = "home"
url = "/old"
check.contains = "Hello ${name}"
think = "5ms"

[[request]]
name = "items"
url = "/api/items?page=${random:1-9}"
take.id = { pointer = "/items/2/id" }

[[request]]
name = "buy"
url = "/api/cart"
json = { id = "${id|raw}" }
status = 201
check.json = { "/ok" = true }
"""
)
# A machine that is busy with other things must not void the runs.
QUICK = ("--warm-up", "0s", "--lag-limit", "5s", "--format", "json")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    rows = "".join(f"user{number},pw user{number}\n" for number in range(8))
    (tmp_path / "users.csv").write_text("name,password\n" + rows)
    path = tmp_path / "shop.toml"
    path.write_text(SCENARIO)
    return path


def by_name(result: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in result["by_name"]}


def test_users_log_in_once_and_every_name_has_its_results(scenario: Path) -> None:
    with shop() as server:
        words = ("--clients", "4", "--sessions", "60", *QUICK)
        verdicts = ("--threshold", "login p95<5s", "--threshold", "home: error_rate<1%", "--threshold", "b* rps>1/s")
        done = run("load", server.url, "--scenario", scenario, *words, *verdicts)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        found = by_name(result)
        counts = {name: each["requests"] for name, each in found.items()}
        assert counts == {"form": 4, "login": 4, "home": 60, "items": 60, "buy": 60}
        assert result["errors"] == 0, result["errors_by_cause"]
        # A login leads to the page, and the old address of the page to its new one.
        assert (found["login"]["redirects"], found["home"]["redirects"], result["redirects"]) == (4, 60, 64)
        assert server.logins == {f"user{number}": 1 for number in range(4)}
        assert server.asked["/home"] == 64
        assert len(server.bought) == 60
        assert {number for _, number in server.bought} == {2}
        assert all(each["response_time_seconds"]["p999"] > 0 for each in found.values())
        timing = found["items"]["server_timing_seconds"]
        assert {name: (each["count"], round(each["p50"], 3)) for name, each in timing.items()} == {
            "app": (60, 0.020),
            "db": (60, 0.012),
        }
        assert found["home"]["server_timing_seconds"] == {}
        assert [verdict["passed"] for verdict in result["thresholds"]] == [True, True, True]
        assert result["users"] == {"users": 4, "rows": 8, "new": False}


def test_arrivals_take_users_that_are_free(scenario: Path) -> None:
    with shop() as server:
        words = ("--rate", "40", "--arrivals", "constant", "--duration", "1500ms", *QUICK)
        done = run("load", server.url, "--scenario", scenario, *words)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        found = by_name(result)
        assert result["errors"] == 0, result["errors_by_cause"]
        assert found["home"]["requests"] >= 50
        assert sum(server.logins.values()) == result["users"]["users"] < 30
        # Each arrival makes three requests.
        assert result["steps"][0]["offered_requests_per_second"] == pytest.approx(120)


def test_a_run_may_begin_with_what_would_be_under_way(tmp_path: Path) -> None:
    flow = "".join(f'[[request]]\nname = "{name}"\nurl = "/home"\nthink = "2s-2s"\n' for name in ("a", "b", "c"))
    path = tmp_path / "pauses.toml"
    with shop() as server:
        words = ("--rate", "30", "--duration", "1500ms", *QUICK)
        counts = {}
        for users in ("", "[users]\nunder_way = true\n"):
            path.write_text(users + flow)
            done = run("load", server.url, "--scenario", path, *words)
            assert done.returncode == 0, done.stderr
            counts[users] = [each["requests"] for each in json.loads(done.stdout)["by_name"]]
    plain, steady = counts.values()
    assert plain[1:] == [0, 0], "no user has thought to the end yet"
    # Poisson counts of 45 each: those further on are as many as those that begin.
    assert all(15 < count < 75 for count in steady), steady


def test_new_users_log_in_every_time(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace('file = "users.csv"', 'file = "users.csv"\nnew = true'))
    with shop() as server:
        done = run("load", server.url, "--scenario", scenario, "--clients", "2", "--sessions", "16", *QUICK)
        assert done.returncode == 0, done.stderr
        assert server.logins == {f"user{number}": 2 for number in range(8)}
        assert "16 users shared the 8 rows of the users file" in json.loads(done.stdout)["warnings"]


def test_a_failed_login_ends_the_iteration_and_what_it_abandons_fails_the_run(scenario: Path) -> None:
    with shop() as server:
        server.refuses_logins = True
        words = ("--clients", "2", "--sessions", "6", "--warm-up", "0s", "--lag-limit", "5s")
        done = run("load", server.url, "--scenario", scenario, *words, "--format", "json")
        assert done.returncode == 1, done.stderr
        result = json.loads(done.stdout)
        found = by_name(result)
        assert found["login"]["errors_by_cause"] == {"status_4xx": 6}
        assert {name: each["abandoned"] for name, each in found.items()} == {
            "form": 0,
            "login": 0,
            "home": 6,
            "items": 6,
            "buy": 6,
        }
        assert result["abandoned_fraction"] == pytest.approx(18 / 30)
        assert server.asked["/old"] == 0
        said = run("load", server.url, "--scenario", scenario, *words)
        assert said.returncode == 1
        assert "FAILED: 18 requests were abandoned" in said.stdout
        judged = run("load", server.url, "--scenario", scenario, *words, "--threshold", "form p95<5s")
        assert judged.returncode == 1
        assert "FAILED: 18 requests were abandoned" in judged.stdout
        allowed = run("load", server.url, "--scenario", scenario, *words, "--abandoned-limit", "100%")
        assert allowed.returncode == 0, allowed.stderr


def test_a_page_is_followed_and_an_endless_redirection_named(tmp_path: Path) -> None:
    with shop() as server:
        words = ("--clients", "1", "--requests", "5", *QUICK)
        plain = json.loads(run("load", f"{server.url}/old", *words).stdout)
        assert plain["errors_by_cause"] == {"status_3xx": 5}
        followed = json.loads(run("load", f"{server.url}/old", "--follow-redirects", "3", *words).stdout)
        assert (followed["requests"], followed["errors"], followed["redirects"]) == (5, 0, 5)
        # The page's length differs from answer to answer.
        home = json.loads(run("load", f"{server.url}/home", *words).stdout)
        assert (home["requests"], home["errors"]) == (5, 0)
        endless = json.loads(run("load", f"{server.url}/loop", "--follow-redirects", "3", *words).stdout)
        assert endless["errors_by_cause"] == {"too_many_redirects": 5}


def test_a_recording_is_made_again(tmp_path: Path) -> None:
    def entry(second: int, url: str) -> dict[str, Any]:
        request = {"method": "GET", "url": url, "headers": [{"name": "Cookie", "value": "session=old"}]}
        started = f"2026-11-21T10:00:{second:02}.000Z"
        return {"startedDateTime": started, "time": 1, "request": request, "response": {"status": 200}}

    with shop() as server:
        entries = [entry(0, f"{server.url}/api/items?page=3"), entry(0, "https://ads.example.org/")]
        recording = tmp_path / "site.har"
        recording.write_text(json.dumps({"log": {"entries": [*entries, entry(0, f"{server.url}/home")]}}))
        done = run("load", server.url, "--scenario", recording, "--clients", "1", "--sessions", "3", *QUICK)
        assert done.returncode == 0, done.stderr
        assert "1 requests of the recording are to other hosts" in done.stderr
        assert {name: each["requests"] for name, each in by_name(json.loads(done.stdout)).items()} == {
            "GET /api/items": 3,
            "GET /home": 3,
        }


def test_a_bad_scenario_is_refused_with_its_place(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("${id|raw}", "${ident|raw}"))
    done = run("load", "http://127.0.0.1:1", "--scenario", scenario, "--clients", "1")
    assert done.returncode == 2
    assert "shop.toml: ${ident} is not defined" in done.stderr
    assert "hint:" in done.stderr
