"""The commands of explanations run, for a reader who has what they speak of; each says so if it is not tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.document_commands import Reader, blocks, looked_up, run_page, tried
from tests.document_readers import READERS, Stock

GENERATED = ("reference", "study-results")
"""Pages of options and of records, as are those of benchmarks."""
PAGES = sorted(
    page
    for page in (*(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("*.md"), *REPOSITORY.glob("examples/*/*.md"))
    if page.stem not in GENERATED and not page.stem.endswith("-benchmark")
)
TYPED = ("sh", "console", "python")
NOT_TYPED = ("text", "toml", "yaml")
"""Languages of blocks that may name commands, but are not for typing."""


def _has_commands(page: Path, *, slow: bool) -> bool:
    return any(block.commands() for block in tried(page, slow=slow) if not slow or "slow" in block.words)


TRIED = [page for page in PAGES if _has_commands(page, slow=False)]
SLOW = [page for page in PAGES if _has_commands(page, slow=True)]
# What it simulates has a core by real-time priority.
ALONE = ("cache-misses",)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    return Stock(tmp_path_factory.mktemp("stock"))


def _try(page: Path, folder: Path, stock: Stock, *, slow: bool) -> None:
    reader = READERS.get(page.stem, Reader())
    for program in reader.needs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} in PATH (scripts/peers)")
    for name, make in reader.files.items():
        stock.put(make, folder / name)
    run_page(page, folder, slow=slow, reader=reader)
    # Some write hundreds of megabytes.
    shutil.rmtree(folder)


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.stem)
def test_an_explanation_runs(page: Path, tmp_path: Path, stock: Stock) -> None:
    _try(page, tmp_path, stock, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.alone] * (page.stem in ALONE)) for page in SLOW]
)
def test_an_explanation_runs_whole(page: Path, tmp_path: Path, stock: Stock) -> None:
    _try(page, tmp_path, stock, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_command_is_in_a_block_of_its_language(page: Path) -> None:
    """Else it would be tried by nobody, and nobody would have said so."""
    unmarked = [block for block in blocks(page) if block.language not in (*TYPED, *NOT_TYPED)]
    assert [(line, words) for block in unmarked for line, words in looked_up(block)] == []


def test_most_pages_with_commands_are_tried() -> None:
    with_commands = [page for page in PAGES if any(block.commands() for block in blocks(page))]
    assert len({*TRIED, *SLOW}) > len(with_commands) * 0.7


@pytest.mark.parametrize("name", READERS)
def test_what_stands_for_something_stands_in_the_page(name: str) -> None:
    """And what is left out begins a command of it."""
    page = next(page for page in PAGES if page.stem == name)
    reader = READERS[name]
    commands = [command.text for block in tried(page, slow=True) for command in block.commands()]
    kept = [text for text in commands if not reader.leaves_out(text)]
    assert [each for each in reader.instead if not any(each in text for text in kept)] == []
    assert [each for each in reader.left_out if not any(text.startswith(each) for text in commands)] == []
    assert kept
