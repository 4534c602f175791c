"""`sojourn assess LOG --target URL` on the example application: the answer and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.assessed_shop import login, status, words
from tests.conftest import run
from tests.shop import PROGRAM, needs_shop

pytestmark = [needs_shop, pytest.mark.slow]
__all__ = ["login", "status"]


def test_an_application_is_loaded_by_users_as_far_as_allowed_and_its_objectives_decide_the_exit_code(
    status: dict[str, Any], login: Path, tmp_path: Path
) -> None:
    limits = ["--max-rate", "20", "--at-rate", "10", "--login", str(login), "--users", "6"]
    limits += ["--junit", str(tmp_path / "ci" / "junit.xml"), "--markdown", str(tmp_path / "ci" / "answer.md")]
    objectives = ["--slo", "pages: p95 < 20s", "--slo", "mean < 1us"]
    folder = status["folder"]
    restart = f"{PROGRAM} restart --folder {folder}"
    change = ["--change", f"app.workers=8->2: {restart} --set threads=1", "--restore", restart]
    done = run(*words(status, tmp_path / "run", *limits, *objectives, *change, "--format", "json"))
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["complete"]
    assert max(step["offered_requests_per_second"] for step in found["steps"]) <= 20.01
    assert found["knee"]["is_lower_bound"]
    assert found["bottleneck"]["cause"] == "unknown"
    assert [each["holds"] for each in found["objectives"]] == [True, False]
    assert found["login"]["users"] == 6
    assert {each["name"]: each["failures"] for each in found["login"]["requests"]} == {"form": 0, "login": 0}
    suite = ElementTree.parse(tmp_path / "ci" / "junit.xml").getroot()[0]
    assert suite.attrib["failures"] == "1"
    # Markdown takes a bare one for HTML.
    assert "mean \\< 1us" in (tmp_path / "ci" / "answer.md").read_text()
    assert {each["name"] for each in found["endpoints"]} == {"pages", "static"}
    assert not any(each["failures"] for step in found["steps"] for each in step["endpoints"])
    for step in found["steps"]:
        assert set(step["tiers"]) == {"web", "app", "db"}
        assert step["tiers"]["app"]["cpu_cores"] is not None
    # At such rates the application uses about as much CPU by itself as for requests, so a demand may be unknown.
    by_both = {(each["endpoint"], each["tier"]): each for each in found["demands"]}
    pages, static = by_both["pages", "app"], by_both["static", "app"]
    assert not static["identifiable"] or static["seconds"]["estimate"] < pages["seconds"]["estimate"]
    assert pages["seconds"]["high"] > 0.0005, "a page takes milliseconds"
    for tier in found["tiers"]:
        used = tier["idle"]["cpu_cores"]
        assert 0 <= used["low"] <= used["estimate"] <= used["high"]
        assert f"{tier['name']} {used['estimate']:.1%} (" in (tmp_path / "run" / "report.html").read_text()
    # It was made and measured; nothing was predicted, because the load did not reach the knee.
    (changed,) = found["verification"]
    assert changed["not_predicted_because"]
    assert changed["measured"]["estimate"] <= 20.01
    assert (tmp_path / "run" / "predictions.json").exists()
    again = run("report", str(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert "bottleneck" in again.stdout
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()


SCENARIO = """
[[flow]]
weight = 2
[[flow.request]]
url = "/"
think = "200ms-600ms"
[[flow.request]]
url = "/search?q=oak"
think = "1s"

[[flow]]
[[flow.request]]
targets = "static.list"
name = "/static/shop.css"
think = "500ms"
"""
STATIC = "# a person's own list\n/static/shop.css 9 #400\n\n"


def test_users_of_a_scenario_make_the_load_and_the_capacity_is_in_users_too(
    status: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "shop.toml").write_text(SCENARIO)
    (tmp_path / "static.list").write_text(STATIC)
    options = ["--scenario", str(tmp_path / "shop.toml"), "--at-users", "6", "--max-rate", "16", "--slo", "p95 < 20s"]
    given = words(status, tmp_path / "run", *options)
    # Only a scenario, of whose requests results are by name.
    del given[1]
    for pattern in ("static=GET /static/*", "pages=GET /*"):
        at = given.index(pattern)
        del given[at - 1 : at + 1]
    done = run(*given, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Two iterations of three are of two requests and 1.4 s of thinking, one of one request and 0.5 s.
    cycle, requests = (2 * 1.4 + 0.5) / 3, 5 / 3
    for step in found["steps"]:
        assert step["users"] >= 1
        assert step["failed_fraction"] == 0
        if step["kind"] == "mix":
            continue
        offered = step["offered_requests_per_second"]
        # Responses take some of the time.
        assert 0.5 * step["users"] * requests / cycle < offered <= 1.001 * step["users"] * requests / cycle
    assert max(step["offered_requests_per_second"] for step in found["steps"]) <= 16.01
    knee = found["knee"]
    assert knee["users"]["estimate"] == pytest.approx(max(step["users"] for step in found["steps"]), rel=0.25)
    assert found["required_users"] == 6
    assert (tmp_path / "static.list").read_text() == STATIC
    assert found["required_requests_per_second"] < 6 * requests / cycle
    assert "of 6 users" in found["verdicts"][1]["because"]
    pauseless = SCENARIO.replace("think", "# think")
    (tmp_path / "shop.toml").write_text(pauseless)
    given[given.index("--output") + 1] = str(tmp_path / "refused")
    refused = run(*given)
    assert refused.returncode == 2
    assert "needs think times" in refused.stderr
