"""The shape of the Rust code: no cycle between the modules of a crate or of a folder, and arrows only downwards.

The graph is read from the sources: every path that begins with `crate`, `super` or a child module is an arrow from the
file that has it to the one that defines what it names. A name that a module passes on counts as that of the module it
comes from. In a folder, arrows between its modules count, not those to its own mod.rs, whose children share its state.
Tests do not count.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CRATES = {path.parent.name: path.parent for path in (ROOT / "crates").glob("*/Cargo.toml")}

PURE = {"cgi", "http", "http-cache", "media", "nfs", "queueing", "s3", "workload"}
"""No sockets, no files, no clock, no threads."""
PERFORMING = {"cache-store", "content", "link", "load", "measure", "replay", "rtsp-server", "server", "web99"}
EDGES = {"engine", "py", "wasm"}
TESTING = {"testing"}
"""Only other crates' tests use it."""
STRANGERS = [("load", "server"), ("server", "load"), ("rtsp-server", "load"), ("load", "rtsp-server")]
"""The generator and what it loads do not share code that could hide a mistake: not even through others."""

ROOM_OF_THE_CRATE = "lib"
"""What lib.rs or main.rs itself defines and uses."""

GROUND = {"access_log", "clock", "counters", "limits", "memory", "sandbox", "stderr", "tls", "watermark"}
"""The ground floor of the server: it uses nothing above it."""
UPWARD = {("counters", ROOM_OF_THE_CRATE)}
"""An exported macro is at the root of its crate: the counters' table is one."""
ABOVE_CONNECTIONS = {"handler", "runtime", "architecture"}

Graph = dict[str, set[str]]
Module = tuple[str, ...]
"""The place of a module: ("connection", "http1"). The crate itself is ()."""


def test_paths_are_read_through_trees_and_comments() -> None:
    text = production('use crate::{a::{B, c::d as e}, f}; // crate::g\nfn h() { crate::i::J::<K>::new("crate::l") }')
    assert list(paths(text, set())) == [
        ["crate", "a", "B"],
        ["crate", "a", "c", "d"],
        ["crate", "f"],
        ["crate", "i", "J"],
    ]


def test_names_are_those_of_the_module_that_defines_them() -> None:
    files = {
        (): "pub mod a; use a::c::D;",
        ("a",): "mod b; pub use b::B; use crate::e::E; use std::fmt::Debug;",
        ("a", "b"): "pub struct B;",
        ("e",): "pub use super::a::B as Passed;",
    }
    imports = {module: imported(text) for module, text in files.items()}
    for path, home in [
        ("super::b::B", ("a", "b")),
        ("super::B", ("a", "b")),
        ("crate::e::Passed", ("a", "b")),
        ("super::E", ("e",)),
        ("super::Defined", ("a",)),
        ("super::Debug", None),
    ]:
        assert resolve(path.split("::"), ("a", "x"), imports) == home, path


def test_a_cycle_in_a_folder_is_found() -> None:
    arrows: dict[Module, set[Module]] = {
        ("a", "b"): {("a", "c", "d"), ("a",)},
        ("a", "c"): {("a", "b")},
        ("a",): {("a", "b"), ("e",)},
    }
    assert folders_with_cycles(arrows) == {"a": {"b", "c"}}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_the_engine_is_built_from_what_is_tested() -> None:
    """With other features, a dependency could refuse to users what it does in tests, and would be built twice."""
    installed = built("--manifest-path", str(CRATES["engine"] / "Cargo.toml"), "--edges", "normal,build")
    assert installed <= built("--workspace", "--edges", "normal,build,dev")


def built(*selected: str) -> set[str]:
    """Packages, their versions and features."""
    command = ["cargo", "tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} {f}", *selected]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.removesuffix(" (*)") for line in done.stdout.splitlines()}


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_no_cycle_between_the_modules_of_a_crate(crate: str) -> None:
    circling = set().union(*cycles(modules_used(CRATES[crate])))
    assert circling == set()


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_no_cycle_between_the_modules_of_a_folder(crate: str) -> None:
    assert folders_with_cycles(arrows_of(CRATES[crate])) == {}


def test_every_crate_is_on_a_floor() -> None:
    assert set(CRATES) == PURE | PERFORMING | EDGES | TESTING


def test_crates_depend_only_downwards() -> None:
    below = {**dict.fromkeys(PURE, PURE), **dict.fromkeys(PERFORMING, PURE | PERFORMING)}
    below |= dict.fromkeys(EDGES, PURE | PERFORMING) | dict.fromkeys(TESTING, PURE)
    upward = {(a, b) for a, used in dependencies().items() for b in used if b not in below[a]}
    assert upward == set()


@pytest.mark.parametrize(("crate", "stranger"), STRANGERS)
def test_the_generator_and_the_servers_do_not_know_each_other(crate: str, stranger: str) -> None:
    assert stranger not in reachable(dependencies(), crate)


def test_the_ground_floor_of_the_server_uses_nothing_above_it() -> None:
    used = modules_used(CRATES["server"])
    assert {(a, b) for a in GROUND & used.keys() for b in used[a] - GROUND} <= UPWARD


def test_connections_know_no_handler_and_no_runtime() -> None:
    used = modules_used(CRATES["server"])["connection"]
    assert used & ABOVE_CONNECTIONS == set()


def dependencies() -> Graph:
    """Our crates that each of our crates is built with; what only its tests use is left out."""
    found: Graph = {}
    for name, folder in CRATES.items():
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        named = [*manifest.get("dependencies", {}), *manifest.get("build-dependencies", {})]
        for target in manifest.get("target", {}).values():
            named += target.get("dependencies", {})
        found[name] = {each.removeprefix("sojourn-") for each in named if each.startswith("sojourn-")}
    return found


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Everything at the end of a walk of one step or more."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        more = graph.get(ahead.pop(), set()) - found
        found |= more
        ahead += more
    return found


def cycles(graph: Graph) -> list[set[str]]:
    """The modules of each circle."""
    reached = {module: reachable(graph, module) for module in graph}
    return [
        {module} | {other for other in reached[module] if module in reached.get(other, set())}
        for module in graph
        if module in reached[module]
    ]


def folders_with_cycles(arrows: Mapping[Module, set[Module]]) -> Graph:
    """By folder, its modules that use each other in a circle; a module stands for everything below it."""
    folders: dict[Module, Graph] = {}
    for here, targets in arrows.items():
        for there in targets:
            common = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if common is not None:
                folders.setdefault(here[:common], {}).setdefault(here[common], set()).add(there[common])
    found = {"/".join(folder): set().union(*cycles(graph)) for folder, graph in folders.items()}
    return {folder: circling for folder, circling in found.items() if circling}


def modules_used(crate: Path) -> Graph:
    """The top-level modules that each top-level module of a crate uses."""
    used: Graph = {}
    for here, targets in arrows_of(crate).items():
        top = here[0] if here else ROOM_OF_THE_CRATE
        tops = {there[0] if there else ROOM_OF_THE_CRATE for there in targets} - {top}
        if tops:
            used.setdefault(top, set()).update(tops)
    return used


@functools.cache
def arrows_of(crate: Path) -> dict[Module, set[Module]]:
    """The modules that each module of a crate uses, each a file."""
    source = crate / "src"
    texts: dict[Module, str] = {}
    for file in source.rglob("*.rs"):
        parts = file.relative_to(source).with_suffix("").parts
        if "tests" in parts or parts[-1] == "bench":
            continue
        texts[parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts] = production(file.read_text())
    imports = {module: imported(text) for module, text in texts.items()}
    found: dict[Module, set[Module]] = {}
    for here, text in texts.items():
        own = re.sub(r"\bpub(?:\([^)]*\))? use [^;]*;", "", text)
        children = {module[-1] for module in texts if module[:-1] == here and module}
        targets = {resolve(path, here, imports) for path in paths(own, children)}
        found[here] = {there for there in targets if there is not None and there != here}
    return found


def imported(text: str) -> dict[str, list[str]]:
    """The names that a file imports or passes on, and their paths."""
    names: dict[str, list[str]] = {}
    for statement in re.findall(r"\buse ([^;]*);", text):
        for path in branches(statement):
            names[path[-2] if path[-1] == "self" and len(path) > 1 else path[-1]] = path
        for name, other in re.findall(r"(\w+)\s+as\s+(\w+)", statement):
            if name in names:
                names[other] = names[name]
    return names


def resolve(path: list[str], module: Module, imports: Mapping[Module, Mapping[str, list[str]]]) -> Module | None:
    """The module that defines what a path in `module` names; None for other crates."""
    seen: set[tuple[Module, str]] = set()
    while path:
        first, *rest = path
        if first in ("crate", "self", "super"):
            module = {"crate": (), "self": module, "super": module[:-1]}[first]
            path = rest
        elif (*module, first) in imports:
            module, path = (*module, first), rest
        elif (known := imports.get(module, {}).get(first)) and known != [first] and (module, first) not in seen:
            seen.add((module, first))
            if known[0] not in ("crate", "self", "super") and (*module, known[0]) not in imports:
                return None
            path = known + rest
        else:
            return module
    return module


def paths(text: str, also: set[str]) -> Iterator[list[str]]:
    """Every path that begins at the crate, a parent or a module named in `also`."""
    heads = "|".join(["crate", "super", *sorted(also)])
    for match in re.finditer(rf"(?<![\w:])(?:{heads})\s*::", text):
        yield from branches(text[match.start() : match.start() + 4000])


def branches(text: str) -> list[list[str]]:
    """The paths of one tree as `use` has it: `a::{b, c::d}` is a::b and a::c::d."""
    found: list[list[str]] = []

    def tree(at: int, before: list[str]) -> int:
        here = list(before)
        while True:
            at += len(text[at:]) - len(text[at:].lstrip())
            if text.startswith("{", at):
                at += 1
                while at < len(text) and not text.startswith("}", at):
                    at = tree(at, here)
                    at += len(text[at:]) - len(text[at:].lstrip(", \n\t"))
                return at + 1
            word = re.compile(r"\w+|\*").match(text, at)
            if word is None:
                if here != before:
                    found.append(here)
                return at if here != before else at + 1
            here.append(word[0])
            at = word.end()
            renamed = re.compile(r"\s+as\s+\w+").match(text, at)
            more = re.compile(r"\s*::\s*(?!<)").match(text, at)
            if renamed or more is None:
                found.append(here)
                return renamed.end() if renamed else at
            at = more.end()

    tree(0, [])
    return found


def production(text: str) -> str:
    """Rust without comments, strings, inline modules of tests, and imports for the documentation."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|b?r#".*?"#|b?"(?:\\.|[^"\\])*"', " ", text, flags=re.DOTALL)
    while match := re.search(r"#\[cfg\((?:test|doc)\)\]\s*(?:pub(?:\([^)]*\))?\s+)?(?:mod|fn|impl|use)\b[^;{]*", text):
        end = match.end()
        if end < len(text) and text[end] == "{":
            depth = 0
            for end in range(match.end(), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
        text = text[: match.start()] + text[end + 1 :]
    return text
