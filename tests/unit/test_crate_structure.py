"""The shape of the Rust code: no cycle between the modules of a crate, and arrows only downwards.

The graph is read from the sources: every path that begins with `crate`, `self` or `super` is an arrow from the
top-level module that has it to the one that defines what it names. A name that lib.rs passes on counts as its module's.
Tests do not count.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CRATES = {path.parent.name: path.parent for path in (ROOT / "crates").glob("*/Cargo.toml")}

PURE = {"cgi", "http", "http-cache", "media", "queueing", "s3", "workload"}
"""No sockets, no files, no clock, no threads."""
PERFORMING = {"cache-store", "content", "link", "load", "measure", "rtsp-server", "server", "web99"}
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


def test_paths_are_read_through_trees_and_comments() -> None:
    text = production('use crate::{a::{B, c::d as e}, f}; // crate::g\nfn h() { crate::i::J::<K>::new("crate::l") }')
    assert list(paths(text, set())) == [
        ["crate", "a", "B"],
        ["crate", "a", "c", "d"],
        ["crate", "f"],
        ["crate", "i", "J"],
    ]


def test_paths_to_parents_become_paths_from_the_root() -> None:
    assert absolute(["super", "b"], ["a", "c"]) == ["a", "b"]
    assert absolute(["super", "super", "b"], ["a", "c"]) == ["b"]
    assert absolute(["crate", "b"], ["a", "c"]) == ["b"]


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


def modules_used(crate: Path) -> Graph:
    """The top-level modules that each top-level module of a crate uses."""
    source = crate / "src"
    root = next(path for name in ("lib.rs", "main.rs") if (path := source / name).exists())
    modules = {path.stem for path in source.iterdir() if path.is_dir() or path.suffix == ".rs"} - {root.stem}
    passed_on: dict[str, str] = {}
    root_text = production(root.read_text())
    for statement in re.findall(r"\bpub(?:\([^)]*\))? use ([^;]*);", root_text):
        for path in branches(statement):
            passed_on[path[-1]] = path[1] if path[0] in ("crate", "self") else path[0]
    used: Graph = {}
    for file in source.rglob("*.rs"):
        parts = list(file.relative_to(source).with_suffix("").parts)
        if "tests" in parts or parts[-1] == "bench" or (len(parts) == 1 and file != root and file.stem not in modules):
            continue
        if parts[-1] == "mod" or file == root:
            parts.pop()
        here = parts[0] if parts else ROOM_OF_THE_CRATE
        text = production(file.read_text())
        if file == root:
            text = re.sub(r"\bpub(?:\([^)]*\))? use [^;]*;", "", text)
        for path in paths(text, modules if file == root else set()):
            target = absolute(path, parts)
            if target is None:
                continue
            first = target[0] if target else ""
            there = first if first in modules else passed_on.get(first, ROOM_OF_THE_CRATE)
            if there not in (here, "tests") and first:
                used.setdefault(here, set()).add(there)
    return used


def absolute(path: list[str], module: list[str]) -> list[str] | None:
    """A path from the root of the crate; None for a path that stays within the module."""
    first, *rest = path
    if first == "crate":
        return rest
    if first == "self":
        return None
    if first != "super":
        return path
    above = module[:-1]
    while rest[:1] == ["super"]:
        above, rest = above[:-1], rest[1:]
    return above + rest


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
    """Rust without comments, strings and inline modules of tests."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|b?r#".*?"#|b?"(?:\\.|[^"\\])*"', " ", text, flags=re.DOTALL)
    while match := re.search(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?(?:mod|fn|impl|use)\b[^;{]*", text):
        end = match.end()
        if end < len(text) and text[end] == "{":
            depth = 0
            for end in range(match.end(), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
        text = text[: match.start()] + text[end + 1 :]
    return text
