"""The example application with a log of its users, and how `sojourn assess` is called on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.login_scenario import login_scenario
from tests.shop import running, shop

LOGIN = login_scenario("/logout")


@pytest.fixture(scope="module")
def status() -> Iterator[dict[str, Any]]:
    with running("--set", "products=100") as known:
        made = shop("traffic", known["folder"], "--users", "8", "--seconds", "4")
        assert made.returncode == 0, made.stderr
        # What loads the shop is logged, too.
        log = known["folder"] / "users.log"
        log.write_bytes(Path(known["access_log"]).read_bytes())
        yield {**known, "log": str(log)}


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("login")
    (folder / "users.csv").write_text("name,password\n" + "".join(f"user{number},shop\n" for number in range(1, 9)))
    (folder / "login.toml").write_text(LOGIN)
    return folder / "login.toml"


def words(status: dict[str, Any], output: Path, *more: str) -> list[str]:
    tiers = status["tiers"]
    port = {name: tiers[part]["port"] for name, part in (("web", "nginx"), ("app", "application"), ("db", "database"))}
    given = [word for name, number in port.items() for word in ("--tier", f"{name}=port:{number}")]
    # Two endpoints: few steps tell them apart.
    given += ["--endpoint", "static=GET /static/*", "--endpoint", "pages=GET /*", "--postgresql", status["database"]]
    of_the_log = ["assess", status["log"], "--target", status["url"]]
    return [*of_the_log, *given, "--effort", "quick", "--output", str(output), *more]
