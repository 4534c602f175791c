"""What an application is loaded with: flows of a log and of scenarios, writes, users; without a server."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from sojourn.applications import load_definition, requests, sessions
from sojourn.applications.coverage import coverage
from sojourn.applications.endpoints import OTHER, Endpoint, endpoints
from sojourn.applications.flows import Flow, endpoints_of, of_log, of_scenario, writes_of
from sojourn.applications.load_definition import of_request
from sojourn.applications.request import EFFORTS, ApplicationRequest
from sojourn.applications.requests import Asked, LogRequests
from sojourn.applications.scenario import Scenario
from sojourn.applications.smoke_test import _TargetList
from sojourn.applications.traffic import Traffic
from sojourn.applications.users import Users
from sojourn.assessment.choices import EffortName
from sojourn.failure import CouldNotRun
from sojourn.loading.fleet import Fleet
from sojourn.tiers.watch import Sources
from sojourn.workload.log import LogOptions

ROWS = (
    Asked("GET", "/account", 200, 8, 800),
    Asked("GET", "/account", 302, 2, 0),
    Asked("GET", "/logout", 302, 1, 0),
    Asked("POST", "/cart/17/add", 302, 4, 0),
    Asked("POST", "/login", 302, 5, 0),
)
LOG = LogRequests(rows=ROWS, requests=20, beyond=0, malformed=0, duration_seconds=60, peak_requests_per_second=1)
KNOWN = [
    Endpoint("GET /account", "GET", ROWS[:2]),
    Endpoint("GET /logout", "GET", ROWS[2:3]),
    Endpoint("POST /cart/{id}/add", "POST", ROWS[3:4]),
    Endpoint("POST /login", "POST", ROWS[4:]),
]
BODIES = Scenario.model_validate(
    {
        "flow": [
            {
                "request": [
                    {"name": "GET /cart", "method": "GET", "url": "/cart", "take": {"csrf": {"input": "csrf"}}},
                    {"name": "add", "method": "POST", "url": "/cart/${random:1-9}/add", "form": {"csrf": "${csrf}"}},
                ]
            }
        ]
    }
)


def test_strangers_answers_are_wrong_for_users_who_are_logged_in(tmp_path: Path) -> None:
    covered = coverage(LOG, KNOWN, ("GET",), logged_in=True)
    assert [each.name for each in covered.endpoints] == ["GET /account"]
    assert {each.why: each.count for each in covered.left_out} == {
        "POST is not allowed (--allow-methods)": 9,
        "/logout would end the users' sessions": 1,
    }
    (flow,) = of_log(covered, {}, tmp_path, logged_in=True)
    assert flow.requests[0]["status"] == [200]
    assert (tmp_path / "0.list").read_text() == "/account 10\n"
    (anyone,) = of_log(coverage(LOG, KNOWN[:1], ("GET",)), {}, tmp_path)
    assert anyone.requests[0]["status"] == [200, 302]
    assert anyone.requests[0]["headers"] == {"Accept-Encoding": "gzip"}
    (plain,) = of_log(coverage(LOG, KNOWN[:1], ("GET",)), {}, tmp_path, ["accept-encoding: br"])
    assert "headers" not in plain.requests[0]


def test_writes_are_made_where_their_bodies_are_known() -> None:
    writes = writes_of(BODIES, KNOWN)
    assert list(writes) == ["POST /cart/{id}/add"]
    token, add = writes["POST /cart/{id}/add"]
    assert token["name"] == "GET /cart"
    assert (add["name"], add["status"], add["redirects"]) == ("POST /cart/{id}/add", [302], 0)
    covered = coverage(LOG, KNOWN, ("GET", "POST"), writes)
    assert [each.name for each in covered.endpoints] == ["GET /account", "GET /logout", "POST /cart/{id}/add"]
    assert [each.why for each in covered.left_out] == ["POST /login: its body is not known (--bodies)"]


def test_what_comes_before_a_write_is_a_part_of_the_load_and_of_its_rate(tmp_path: Path) -> None:
    log, bodies = tmp_path / "access.log", tmp_path / "bodies.toml"
    line = '10.0.0.1 - - [21/Nov/2026:10:00:{:02d} +0000] "{} HTTP/1.1" {} 100\n'
    posts = [line.format(second, "POST /cart/7/add", 302) for second in range(20)]
    log.write_text("".join([*posts, *(line.format(second, "GET /", 200) for second in range(30))]))
    bodies.write_text(
        '[[flow]]\n[[flow.request]]\nname = "cart"\nurl = "/cart"\n'
        '[[flow.request]]\nname = "add"\nmethod = "POST"\nurl = "/cart/7/add"\n'
    )
    request = ApplicationRequest(
        log=str(log), log_options=LogOptions(), target="http://127.0.0.1:1", tiers=[], sources=Sources(), endpoints=[],
        methods=("GET", "POST"), headers=[], objectives=[], required_rate=None, rate_max=None, errors_max=0.05,
        effort=EFFORTS[EffortName.quick], seed=1, bodies=bodies,
    )  # fmt: skip
    load = of_request(request, tmp_path)
    # Seven requests for five lines of the log.
    assert load.requests_per_logged == pytest.approx(70 / 50)
    assert load.log is not None
    assert load.peak_requests_per_second == pytest.approx(load.log.peak_requests_per_second * 70 / 50)
    assert load.shares == {"GET /": pytest.approx(30 / 70), "POST /cart/{id}/add": pytest.approx(40 / 70)}


def test_endpoints_that_are_combined_have_names_of_their_own() -> None:
    many = [
        Endpoint(f"GET /{number}", "GET", (Asked("GET", f"/{number}", 200, 100 - number, 1),)) for number in range(12)
    ]
    combined = Endpoint(f"GET {OTHER}", "GET", (Asked("GET", "/x", 200, 99, 1),))
    few = load_definition._few([combined, *many], {})
    assert len({each.name for each in few}) == len(few) <= load_definition.ENDPOINTS_MAX
    assert sum(each.count for each in few) == combined.count + sum(each.count for each in many)


def test_a_write_stands_for_paths_of_its_own_alone() -> None:
    other = Endpoint("POST /cart/{id}/add", "POST", (Asked("POST", "/cart/17/add/now", 302, 4, 0),))
    assert writes_of(BODIES, [other]) == {}
    assert writes_of(BODIES, [Endpoint("x", "PUT", (Asked("PUT", "/cart/17/add", 302, 4, 0),))]) == {}


def test_flows_of_a_scenario_have_visits_shares_and_times() -> None:
    scenario = Scenario.model_validate(
        {
            "flow": [
                {"weight": 3, "request": [{"name": "home", "method": "GET", "url": "/"}]},
                {
                    "request": [
                        {"name": "list", "method": "GET", "url": "/list", "think": "1s-3s", "repeat": 2},
                        {"name": "buy", "method": "POST", "url": "/buy", "share": 0.5, "check": {"contains": "x"}},
                    ]
                },
            ]
        }
    )
    home, shop = of_scenario(scenario)
    assert (home.count, shop.count) == (3, 1)
    assert shop.visits == {"list": 2.0, "buy": 0.5}
    assert shop.requests_per_iteration == 2.5
    assert shop.think_seconds(None) == 4.0
    # By the interactive response time law: two pages and half a purchase of so many seconds, and the thinking.
    assert shop.cycle_seconds(None, {"list": 0.5, "buy": 1.0}) == pytest.approx(4.0 + 2 * 0.5 + 0.5)
    assert home.cycle_seconds("2s", {}) == 2.0
    assert Flow(
        "pauses", 1, [{"name": "a", "think": "0s"}, {"name": "b", "think": "0-2s"}, {"name": "c"}]
    ).think_seconds("0.0s") == pytest.approx(1.0)
    # What is looked at comes as it is.
    assert [bool(table.get("headers")) for table in shop.requests] == [True, False]
    counts = {each.name: each.count for each in endpoints_of([home, shop])}
    assert counts == {"home": 7500, "list": 5000, "buy": 1250}


def test_a_new_user_of_each_iteration_logs_in_within_the_load() -> None:
    login = {"name": "login", "method": "POST", "url": "/login"}
    home = {"name": "home", "method": "GET", "url": "/"}
    again = Scenario.model_validate({"users": {"new": True}, "login": [login], "request": [home]})
    (flow,) = of_scenario(again)
    assert flow.visits == {"login": 1.0, "home": 1.0}
    assert not Users(again, 5).log_in
    once = Scenario.model_validate({"login": [login], "request": [home]})
    assert of_scenario(once)[0].visits == {"home": 1.0}
    with Users(once, 5) as users:
        assert users.log_in
        assert users.options[0] == "--users-file"
        assert users.tables()["users"] == {"tabs": True}
    with pytest.raises(CouldNotRun, match="a login alone"):
        of_scenario(Scenario.model_validate({"login": [login]}))


class _Elsewhere:
    """Machines that reach this one by another address."""

    def url(self, here: str) -> str:
        return here.replace("127.0.0.1", "127.0.0.2")


def test_users_log_in_where_the_machines_find_the_target(tmp_path: Path) -> None:
    login = {"name": "login", "method": "POST", "url": "/login"}
    scenario = Scenario.model_validate(
        {"users": {"count": 9}, "login": [login], "request": [{"name": "home", "method": "GET", "url": "/"}]}
    )
    with Users(scenario, 2) as users:
        assert users.tables()["users"] == {"tabs": True}
        fleet = cast(Fleet, _Elsewhere())
        traffic = Traffic("http://127.0.0.1:1", [], users, tmp_path, None, 1, fleet=fleet)
        with pytest.raises(CouldNotRun, match="the login fails") as refused:
            traffic.logged_in()
    assert str(refused.value.hint).startswith("users and machines reach the target at http://127.0.0.2:1: ")


def test_a_log_s_sessions_keep_their_order_and_pauses_and_leave_out_what_may_not_be_made(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = '10.0.0.{} - - [21/Nov/2026:10:{:02d}:{:02d} +0000] "{} HTTP/1.1" {} 100\n'
    lines = []
    for client in range(12):
        for second, request, status in (
            (0, "GET /account", 302),
            (3, "POST /login", 302),
            (7, "GET /account?x=a%20b|c", 200),
            (8, "GET /gone", 404),
        ):
            lines.append(line.format(client, client, second, request, status))
    log.write_text("".join(lines))
    read = requests.read(str(log), LogOptions())
    known = endpoints(read.rows, ["account=GET /account*"])
    covered = coverage(read, known, ("GET",))
    found = sessions.of_log(str(log), LogOptions(), covered, (), ("accept-encoding: br",), 1, logged_in=False)
    assert len(found) == 12
    for session in found:
        assert [table["name"] for table in session.requests] == ["account", "account", "GET (not found)"]
        # The log has whole seconds: within each, a request is placed at random.
        pauses = [float(str(table["think"]).partition("s-")[0]) for table in session.requests]
        assert pauses == [pytest.approx(7, abs=1), pytest.approx(1, abs=1), 0]
        assert [table["url"] for table in session.requests] == ["/account", "/account?x=a%20b|c", "/gone"]
        assert session.requests[2]["status"] == [404]
        assert session.think_seconds(None) == pytest.approx(8, abs=1)
    # What answers otherwise by now is left out, and the pause after it stays.
    left = sessions.without(found, "account", {"/account?x=a%20b|c"})
    assert [[table["url"] for table in session.requests] for session in left] == [["/account", "/gone"]] * 12
    assert all(session.think_seconds(None) == pytest.approx(8, abs=1) for session in left)
    assert sessions.without(left, "GET (not found)", {"/gone"})[0].requests[0]["url"] == "/account"
    assert not sessions.without([Flow("s", 1, [{"name": "a", "url": "/a", "think": "1s"}])], "a", {"/a"})
    traffic = Traffic("http://127.0.0.1", of_log(covered, {}, tmp_path / "t"), Users(Scenario(), 1), tmp_path, None, 1)
    traffic.sessions = found
    rates = {"account": 20.0, "GET (not found)": 10.0, "POST /cart": 3.0}
    made = dict((flow.name, each) for flow, each in traffic._sessions_at(rates))
    # Thirty requests a second of sessions of three; what no session has is another flow's.
    assert sum(made.values()) == pytest.approx(10.0)
    with pytest.raises(CouldNotRun, match="0 sessions"):
        sessions.of_log(str(log), LogOptions(), coverage(read, known, ()), (), (), 1, logged_in=False)


def test_a_session_asks_with_get_what_a_monitor_asks_with_head(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = '10.0.0.{} - - [21/Nov/2026:10:{:02d}:{:02d} +0000] "{} HTTP/1.1" 200 100\n'
    visits = [line.format(client, client, second, "GET /") for client in range(12) for second in (0, 5)]
    log.write_text("".join([*visits, line.format(99, 30, 0, "HEAD /")]))
    covered = coverage(read := requests.read(str(log), LogOptions()), endpoints(read.rows), ("GET", "HEAD"))
    assert [each.name for each in covered.endpoints] == ["GET /", "HEAD /"]
    found = sessions.of_log(str(log), LogOptions(), covered, (), (), 1, logged_in=False)
    assert {(table["method"], table["name"]) for flow in found for table in flow.requests} == {("GET", "GET /")}


def test_lists_of_targets_are_read_as_the_engine_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "own.list"
    path.write_text(own := "# the most frequent first\n\n/a 5 #500\n\t/b?x=1\t7\n/c 1\n")
    listed = _TargetList("flow", path)
    assert listed.most_frequent(2) == ["/b?x=1", "/a"]
    assert listed.leave_out(["/d"]) == 0
    assert path.read_text() == own
    assert listed.leave_out(["/a", "/c"]) == 6
    assert path.read_text() == "/b?x=1 7\n"


def test_flows_that_begin_alike_are_told_apart() -> None:
    home = {"name": "home", "method": "GET", "url": "/"}
    made = of_scenario(Scenario.model_validate({"flow": [{"request": [home]}, {"request": [home, home]}]}))
    assert [each.name for each in made] == ["home (1)", "home (2)"]
    assert isinstance(made[0], Flow)
    assert len(endpoints(ROWS)) >= 3
