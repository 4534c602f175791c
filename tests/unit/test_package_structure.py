"""The Python import graph: arrows point down, and neither a package nor a module imports itself in a circle."""

from __future__ import annotations

import ast
import functools
from collections.abc import Container
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "sojourn"
EDGES = {"cli", "commands"}
GROUND_FLOOR = {"failure"}
LOOSE_MODULES = {"__init__.py", "cli.py", "failure.py", "interrupts.py"}
"""The modules outside any package."""


def package_of(module: str) -> str | None:
    """`loading` of `sojourn.loading.run`; None of the native module, the version and other libraries."""
    top = module.removeprefix("sojourn.").partition(".")[0]
    return top if module.startswith("sojourn.") and top not in ("__version__", "_native") else None


@functools.cache
def imported(path: Path) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path} has a relative import"
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(names)


def imports() -> dict[str, set[str]]:
    """Each package, and the packages that its files import anywhere, lazily or for types too."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "__init__.py":
            continue  # What scripts use is reached through it lazily; it is no package of its own.
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found = (package_of(module) for module in imported(path))
        graph.setdefault(here, set()).update(each for each in found if each is not None and each != here)
    return graph


def module_imports() -> dict[str, set[str]]:
    """Each module, and the modules that it imports anywhere. The package's own `__init__`, which is lazy, is none."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    del modules[PACKAGE.name]
    return {
        name: {found for each in imported(path) if (found := home(each, modules))} for name, path in modules.items()
    }


def home(name: str, modules: Container[str]) -> str | None:
    """The module of `sojourn.loading.run.Run`; None of other libraries."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def importers_of(package: str) -> set[str]:
    return {here for here, there in imports().items() if package in there}


def test_no_package_imports_itself_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(f"packages import each other: {' <- '.join(error.args[1])}")


def test_no_module_imports_itself_in_a_circle() -> None:
    try:
        TopologicalSorter({name: used - {name} for name, used in module_imports().items()}).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


def test_only_the_commands_import_reports() -> None:
    assert importers_of("report") <= EDGES


def test_only_the_commands_import_jmt() -> None:
    assert importers_of("jmt") <= EDGES


def test_only_the_command_line_imports_commands() -> None:
    assert importers_of("commands") <= {"cli"}


def test_text_imports_nothing_above_it() -> None:
    assert imports()["text"] <= GROUND_FLOOR


def test_every_module_lies_in_the_package_of_its_subject() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} <= LOOSE_MODULES
