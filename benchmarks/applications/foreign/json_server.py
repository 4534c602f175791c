"""json-server from npm under Node: one process with a REST interface to a file that it keeps in memory."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.applications.foreign.running import Foreign, Parts, free_port
from sojourn.failure import CouldNotRun

POSTS, COMMENTS = 600, 1800
WORDS = ("station", "queue", "lamp", "harbour", "index", "winter", "signal", "paper", "bridge", "copper")
PATHS: Sequence[str] = (
    "/posts?_page=1&_limit=10",
    *(f"/posts/{number}" for number in range(1, 40)),
    *(f"/comments?postId={number}" for number in range(1, 15)),
    *(f"/posts?q={word}&_limit=5" for word in WORDS[:3]),
)


def starting(installed: Path) -> Callable[[Parts], Foreign]:
    """Returns a function that starts it."""

    def start(parts: Parts) -> Foreign:
        node, program = shutil.which("node"), installed / "node_modules/json-server/lib/cli/bin.js"
        if node is None or not program.exists():
            raise CouldNotRun("there is no json-server to assess", "benchmarks/applications/peers installs it")
        port, data = free_port(), parts.folder / "db.json"
        data.write_text(json.dumps(_data()))
        parts.start([node, program, data, "--host", "127.0.0.1", "--port", str(port), "--quiet"], parts.folder)
        web = parts.nginx(f"location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; }}")
        return Foreign(f"http://127.0.0.1:{web}", parts.folder / "access.log", {"web": web, "app": port})

    return start


def _data() -> dict[str, list[dict[str, object]]]:
    drawn = random.Random(1)
    posts: list[dict[str, object]] = [
        {"id": number, "title": " ".join(drawn.choices(WORDS, k=4)), "body": " ".join(drawn.choices(WORDS, k=60))}
        for number in range(1, POSTS + 1)
    ]
    comments: list[dict[str, object]] = [
        {"id": number, "postId": 1 + number % POSTS, "body": " ".join(drawn.choices(WORDS, k=20))}
        for number in range(1, COMMENTS + 1)
    ]
    return {"posts": posts, "comments": comments}
