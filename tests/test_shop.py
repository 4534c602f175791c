"""The example application as its users see it: pages, forms, the queue, its knobs, its log, and its end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.shop import needs_shop, running, shop

pytestmark = needs_shop


@pytest.fixture(scope="module")
def status() -> Iterator[dict[str, Any]]:
    with running("--set", "products=200", "--log-format", "timed") as known:
        yield known


class User:
    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.page = ""

    def get(self, path: str) -> str:
        with self._opener.open(self.url + path, timeout=30) as answer:
            self.page = answer.read().decode()
        return self.page

    def post(self, path: str, **fields: str) -> str:
        token = re.search(r'name="token" value="([0-9a-f]+)"', self.page)
        assert token
        with self._opener.open(self.url + path, urlencode({"token": token[1], **fields}).encode(), 30) as answer:
            self.page = answer.read().decode()
        return self.page


def test_a_user_searches_logs_in_and_buys_and_the_queue_sends_it(status: dict[str, Any]) -> None:
    user = User(status["url"])
    slug = re.findall(r"/products/([a-z0-9-]+)", user.get("/search?q=lamp"))[0]
    assert "Add to basket" in user.get(f"/products/{slug}")
    user.post("/cart/add", product=slug)
    user.get("/login")
    assert "User 7" in user.post("/login", name="user7", password="shop")
    user.get("/cart")
    number = re.findall(r"Order ([0-9a-f]+)", user.post("/checkout"))[0]
    until = time.monotonic() + 20
    while ", sent" not in user.get(f"/orders/{number}"):
        assert time.monotonic() < until, user.page
        time.sleep(0.1)


def test_forms_without_their_token_and_wrong_passwords_are_refused(status: dict[str, Any]) -> None:
    user = User(status["url"])
    user.get("/login")
    with pytest.raises(HTTPError) as wrong:
        user.post("/login", name="user7", password="wrong")
    assert wrong.value.code == 401
    user.page = 'name="token" value="00"'
    with pytest.raises(HTTPError) as forged:
        user.post("/login", name="user7", password="shop")
    assert forged.value.code == 403


def test_it_says_what_it_did_and_where_the_time_went(status: dict[str, Any]) -> None:
    user = User(status["url"])
    user.get("/api/products/3")
    until = time.monotonic() + 20
    while 'endpoint="catalogue.product_data",status="200"' not in user.get("/metrics"):
        assert time.monotonic() < until, user.page
        time.sleep(0.1)
    assert "shop_pool_size" in user.page
    assert re.search(r'"GET /api/products/3 HTTP/1.1" 200 .* \d\.\d{3} \d\.\d{3}$', _log(status), re.MULTILINE)


def test_its_users_make_a_log(status: dict[str, Any]) -> None:
    made = shop("traffic", status["folder"], "--users", "6", "--seconds", "4")
    assert made.returncode == 0, made.stderr
    assert int(made.stderr.split()[0]) >= 12
    clients = {line.split()[0] for line in _log(status).splitlines()}
    assert len(clients) >= 6


def test_knobs_change_what_runs_and_the_address_stays(status: dict[str, Any]) -> None:
    again = shop("restart", status["folder"], "--json", "--set", "external_ms=150", "--set", "workers=1")
    assert again.returncode == 0, again.stderr
    known = json.loads(again.stdout)
    assert known["url"] == status["url"]
    assert known["knobs"]["workers"] == 1
    user = User(known["url"])
    slug = re.findall(r"/products/([a-z0-9-]+)", user.get("/"))[0]
    begin = time.monotonic()
    user.get(f"/products/{slug}")
    assert time.monotonic() - begin > 0.02
    children = Path(f"/proc/{known['tiers']['application']['pid']}/task")
    assert sum(len(path.read_text().split()) for path in children.glob("*/children")) == 1


def test_a_second_start_is_refused_and_nothing_stays_after_the_end() -> None:
    with running("--set", "products=50") as known:
        second = shop("start", known["folder"])
        assert second.returncode == 2
        assert "runs already" in second.stderr
    for tier in known["tiers"].values():
        assert not Path(f"/proc/{tier['pid']}/exe").exists()
    assert not known["folder"].exists()


def test_a_knob_that_there_is_not_is_refused(tmp_path: Path) -> None:
    refused = shop("start", tmp_path, "--set", "speed=9")
    assert refused.returncode == 2
    assert "external_ms" in refused.stderr


def _log(status: dict[str, Any]) -> str:
    return Path(status["access_log"]).read_text()
