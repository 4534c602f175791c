"""Users of the shop, who browse, search, log in and buy, to fill an access log.

Each user is a thread with its own source address 127.x.y.z, so that the log tells them apart.
"""

from __future__ import annotations

import random
import re
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import quote, urlencode, urlsplit

THINK_SECONDS = 1.0
WORDS = ("lamp", "green chair", "oak table", "quiet clock", "wool", "small", "copper kettle", "bright rug", "ghent")
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"


def make(url: str, users: int, seconds: float, seed: int) -> int:
    """Simulates this many users at a time for this long; returns the number of requests."""
    until = time.monotonic() + seconds
    threads = [_Users(url, number, until, random.Random(seed * 1000 + number)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(thread.asked for thread in threads)


class _Users(threading.Thread):
    """Users that follow each other in a thread."""

    def __init__(self, url: str, number: int, until: float, random: random.Random) -> None:
        super().__init__(daemon=True)
        self.asked = 0
        self._address = urlsplit(url).netloc
        self._number = number
        self._until = until
        self._random = random

    def run(self) -> None:
        visit = 0
        while time.monotonic() < self._until:
            visit += 1
            user = _User(self._address, f"127.{self._number % 250 + 1}.{visit // 250}.{visit % 250 + 1}", self._random)
            try:
                for _ in user.visit():
                    if time.monotonic() > self._until:
                        break
                    time.sleep(self._random.expovariate(1 / THINK_SECONDS))
            except (OSError, HTTPException):
                time.sleep(THINK_SECONDS)
            self.asked += user.asked


class _User:
    """A user's visit, with its cookies."""

    def __init__(self, address: str, source: str, random: random.Random) -> None:
        self.asked = 0
        self._connection = HTTPConnection(address, timeout=30, source_address=(source, 0))
        self._cookie = ""
        self._random = random
        self._page = ""
        self._at = "-"

    def visit(self):
        """Makes a request for each step; the generator yields at each pause."""
        yield self._get("/")
        self._get("/static/shop.css")
        if self._random.random() < 0.02:
            yield self._get("/wp-login.php")
            return
        for _ in range(self._random.randint(1, 6)):
            yield self._look()
        if self._random.random() < 0.3:
            yield from self._buy()
        if self._random.random() < 0.2:
            yield self._get("/account")

    def _look(self) -> None:
        choice = self._random.random()
        page = f"page={self._random.randint(2, 4)}" if self._random.random() < 0.3 else ""
        if choice < 0.3:
            self._get(f"/search?q={quote(self._random.choice(WORDS))}" + (f"&{page}" if page else ""))
        elif choice < 0.5:
            names = re.findall(r'href="/category/([a-z]+)"', self._page) or ["lamps", "chairs", "rugs"]
            sort = self._random.choice(("", "sort=price", "sort=newest"))
            query = "&".join(part for part in (sort, page) if part)
            self._get(f"/category/{self._random.choice(names)}" + (f"?{query}" if query else ""))
        elif choice < 0.65:
            self._get(f"/api/products/{self._random.randint(1, 1000)}")
        else:
            self._product()

    def _product(self) -> str | None:
        found = re.findall(r'href="/products/([a-z0-9-]+)"', self._page)
        if not found:
            self._get("/")
            found = re.findall(r'href="/products/([a-z0-9-]+)"', self._page)
        slug = self._random.choice(found) if found else None
        if slug:
            self._get(f"/products/{slug}")
        return slug

    def _buy(self):
        for _ in range(self._random.randint(1, 3)):
            slug = self._product()
            yield
            if slug:
                yield self._post("/cart/add", {"product": slug})
        yield self._get("/cart")
        yield self._get("/login")
        yield self._post("/login", {"name": f"user{self._random.randint(1, 500)}", "password": "shop"})
        yield self._get("/cart")
        yield self._post("/checkout", {})
        yield self._post("/logout", {})

    def _get(self, path: str) -> None:
        self._ask("GET", path, None)

    def _post(self, path: str, fields: dict[str, str]) -> None:
        token = re.search(r'name="token" value="([0-9a-f]+)"', self._page)
        self._ask("POST", path, urlencode({"token": token[1] if token else "", **fields}))

    def _ask(self, method: str, path: str, body: str | None) -> None:
        headers = {"User-Agent": AGENT, "Accept-Encoding": "identity", "Referer": self._at}
        headers |= {"Cookie": self._cookie} if self._cookie else {}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        self._connection.request(method, path, body, headers)
        answer: HTTPResponse = self._connection.getresponse()
        text = answer.read().decode(errors="replace")
        self.asked += 1
        if cookie := answer.headers.get("Set-Cookie"):
            self._cookie = cookie.partition(";")[0]
        if location := answer.headers.get("Location"):
            self._ask("GET", location, None)
        elif answer.headers.get_content_type() == "text/html":
            self._page, self._at = text, f"http://{self._connection.host}{path}"
