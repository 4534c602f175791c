"""The way in: the help and the version are there at once, and the table of commands is that of the modules."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.table import Table

from sojourn.commands import assess, catalogue, endpoints, example_log, fit
from sojourn.commands.formats import Terminal, data, print_where, talk
from sojourn.commands.progress import Stages, time_left

COMMANDS = Path(catalogue.__file__).parent
SAID = """
import sys
sys.argv = ["sojourn", {word!r}]
from sojourn.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
SLOW = {"typer", "rich", "numpy", "polars", "scipy", "pydantic", "sojourn.engine"}
"""Libraries that take longer than the help may."""


@pytest.mark.parametrize("word", ["--version", "--help", "-h"])
def test_the_help_and_the_version_import_nothing_slow(word: str) -> None:
    said = SAID.format(word=word)
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert "sojourn" in done.stdout
    assert not SLOW & set(done.stderr.split())


def test_the_help_of_the_main_job_loads_no_measuring() -> None:
    program = "import sys; sys.argv = ['sojourn', 'assess', '--help']; from sojourn.cli import main; " + (
        "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--target-p95" in done.stdout
    assert not {"scipy", "numpy", "polars", "sojourn.assessment.pipeline"} & set(done.stderr.split())


def test_the_first_steps_are_commands() -> None:
    lines = [line for line in catalogue.first_steps().splitlines() if line.startswith("  sojourn ")]
    assert len(lines) == 3
    assert all(line.split()[1] in catalogue.COMMANDS and len(line) <= 80 for line in lines)


def test_the_help_names_every_command_that_a_module_adds() -> None:
    modules = {path.stem for path in COMMANDS.glob("*.py") if "def register(app" in path.read_text()}
    assert {module for module, _ in catalogue.COMMANDS.values()} == modules - {"app"}
    text = catalogue.help_text()
    assert all(f"  {name} " in text and summary in text for name, (_, summary) in catalogue.COMMANDS.items())
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(("word", "said"), [("asses", "sojourn assess"), ("--verbose", "--help"), ("zzz", "--help")])
def test_what_is_no_command_is_refused_with_a_hint(word: str, said: str) -> None:
    program = f"import sys; sys.argv = ['sojourn', {word!r}]; from sojourn.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert word in done.stderr
    assert said in done.stderr.split("hint:")[1]


def test_the_table_imports_nothing() -> None:
    imported = [each for each in ast.walk(ast.parse((COMMANDS / "catalogue.py").read_text())) if _imports(each)]
    assert len(imported) == 2, "__future__ and collections.abc"


def _imports(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def test_names_cannot_steer_the_terminal() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, width=80)
    table = Table("path")
    table.add_row("/\x1b[2J\x9b31m\u202egnp.exe")
    terminal.print("/\x1b]0;title\x07", table, "two\nlines")
    printed = file.getvalue()
    assert not any(character in printed for character in "\x1b\x9b\x07\u202e")
    assert "/\\x1b[2J\\x9b31m\\u202egnp.exe" in printed
    assert "/\\x1b]0;title\\x07" in printed
    assert "two\nlines" in printed


def test_names_in_brackets_and_colons_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("endpoint")
    table.add_row("GET /?a[/b]&filter[status]")
    print_where(Path("runs/[new]/a[/b]"))
    data.print(table, "http://[fd00::1:a:2]/")
    talk.print("run 1 of 3, http://[fd00::1:a:2]/", highlight=False)
    stages = Stages(data)
    stages.begin("a[/b]")
    stages.done("c[/d]")
    printed = capsys.readouterr()
    assert "report: runs/[new]/a[/b]" in printed.out
    assert "GET /?a[/b]&filter[status]" in printed.out
    assert "http://[fd00::1:a:2]/" in printed.out
    assert "a[/b]: c[/d]" in printed.out
    assert "http://[fd00::1:a:2]/" in printed.err


def test_bars_show_names_in_brackets_as_they_are() -> None:
    terminal = Terminal(file=io.StringIO(), width=80, force_terminal=True)
    with Stages(terminal) as stages:
        stages.begin("a[/b]")
        stages.done("c[/d]")
    assert isinstance(terminal.file, io.StringIO)
    printed = terminal.file.getvalue()
    assert "a[/b]" in printed
    assert "c[/d]" in printed


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("-", "stdin"),
        ("logs/access.log.gz", "access"),
        (".access.log", "access"),
        ("logs/*.gz", "log"),
        ("logs/access*.gz", "access"),
        (".", "site"),
        ("../site/", "site"),
        ("site#2.log", "site-2"),
    ],
)
def test_a_run_has_a_folder_of_its_own_whatever_its_log_is_called(
    log: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "runs" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "site")
    assert assess._default_output(log) == Path("runs") / name
    Path("runs", name, "summary.json").touch()
    assert assess._default_output(log) == Path("runs") / f"{name}-2"


def test_the_time_left_follows_from_the_progress_once_it_tells() -> None:
    assert time_left(30.0, 25.0, 100.0) == 90.0
    assert time_left(30.0, 100.0, 100.0) == 0.0
    for unknown in ((30.0, 4.0, 100.0), (2.0, 50.0, 100.0), (30.0, 25.0, None), (30.0, 0.0, 0.0)):
        assert time_left(*unknown) is None


SIZES = "size_bytes,demand_seconds\n" + "".join(f"{size},{0.001 + 1e-8 * size}\n" for size in range(1000, 40_000, 1000))
LOG = '127.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 100\n' * 10


@pytest.mark.parametrize(
    ("module", "words", "shown"),
    [
        (fit, ["fit", "sizes.csv"], ["read", "2 of 3 pieces", "bootstrap"]),
        (endpoints, ["endpoints", "access.log"], ["read", "10 requests"]),
        (example_log, ["example-log", "example.log"], ["write", "wrote example.log"]),
    ],
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_commands_show_on_a_terminal_how_far_they_are(
    module: object,
    words: list[str],
    shown: list[str],
    is_terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Terminal, "is_terminal", property(lambda _: is_terminal))
    Path("sizes.csv").write_text(SIZES)
    Path("access.log").write_text(LOG)
    commands = typer.Typer()
    commands.callback()(lambda: None)
    module.register(commands)  # type: ignore[attr-defined]
    typer.main.get_command(commands).main(words, standalone_mode=False)
    said = capsys.readouterr().err
    assert [each for each in shown if each in said] == (shown if is_terminal else shown[-1:] * (module is example_log))
