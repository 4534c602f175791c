"""What documents say to type can be typed: commands, options and files exist, and tutorials run from start to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import chromium
from sojourn.commands.app import app, register
from sojourn.commands.command_table import commands, flattened
from sojourn.engine import description
from tests.conftest import CHROMIUM, REPOSITORY
from tests.document_commands import blocks, command_lines, run_page

PAGES = sorted([*(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("*.md"), *REPOSITORY.glob("examples/*/*.md")])
TRIED = sorted([*(REPOSITORY / "docs/tutorials").glob("*.md"), *(REPOSITORY / "docs/how-to").glob("*.md")])
TRIED_ELSEWHERE = ("application-owner",)
"""Pages whose slow part other tests try in less time: assessments of an application."""
SLOW = [
    page for page in TRIED if any("slow" in block.words for block in blocks(page)) and page.stem not in TRIED_ELSEWHERE
]
SITE = REPOSITORY / "build" / "site"


def _known() -> dict[str, set[str]]:
    """The options of every command, by its words."""
    register(None)
    found = {
        f"sojourn {each.name}": {name for option in each.options for name in option.names}
        for each in flattened(commands(app))
    }
    for each in description.description().commands:
        options = {name for option in each.options for name in (f"--{option.name}", f"-{option.short}")}
        found.setdefault(f"sojourn-engine {each.name}", set()).update(options)
    # What follows the command's own name is of its default kind.
    found["sojourn plan"] = found["sojourn plan system"]
    return found


KNOWN = _known()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def _wrong_words(words: list[str]) -> Iterator[str]:
    program, *rest = words
    if program == "make":
        yield from (f"make {word}" for word in rest if word.islower() and word not in TARGETS)
    elif "/" in program:
        yield from () if (REPOSITORY / program).exists() else (program,)
    elif rest and rest[0] not in ("--version", "--help", "COMMAND"):
        name = next((name for n in (2, 1) if (name := " ".join([program, *rest[:n]])) in KNOWN), None)
        if name is None:
            yield f"{program} {rest[0]}"
            return
        # Behind `--` is the command of somebody else.
        ours = rest[: rest.index("--")] if "--" in rest else rest
        named = {word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)}
        yield from (f"{name} {word}" for word in sorted(named - KNOWN[name]))
    files = (word for word in rest if re.match(r"(studies|examples|benchmarks)/[\w/.-]+$", word))
    yield from (word for word in files if not (REPOSITORY / word).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_document_says_to_type_exists(page: Path) -> None:
    wrong = [f"line {line}: {word}" for line, words in command_lines(page) for word in _wrong_words(words)]
    assert wrong == []


def test_words_are_looked_up() -> None:
    assert sum(len(list(command_lines(page))) for page in PAGES) > 100
    for line in (
        "sojourn lode http://h/",
        "sojourn load http://h/ --clientz 3",
        "make demmo",
        "sojourn plan studies/none.toml",
    ):
        assert list(_wrong_words(line.split())), line
    assert list(_wrong_words(["sojourn", "link", "--rate", "1Mbit/s", "--", "other", "--none"])) == []


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.stem)
def test_a_tutorial_runs_whole(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, slow=True)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")
@pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="make docs has not built the site")
def test_the_site_is_read_and_searched_from_its_files(tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as browser:
        browser.resize(400, 900)
        browser.open((SITE / "index.html").as_uri())
        assert browser.evaluate("document.title").startswith("Sojourn")
        links = browser.evaluate("[...document.querySelectorAll('nav a, .sidebar-tree a')].map((each) => each.href)")
        assert any(link.endswith("tutorials/operator.html") for link in links)
        for page in ("tutorials/operator", "models", "commands"):
            browser.open((SITE / f"{page}.html").as_uri())
            assert browser.evaluate("document.documentElement.scrollWidth") <= 400, page
        browser.open(f"{(SITE / 'search.html').as_uri()}?q=knee")
        browser.wait("document.querySelectorAll('#search-results li').length > 0")
        assert {each.partition(":")[0] for each in browser.requested} <= {"file", "data", "about"}
        assert browser.complaints == []
