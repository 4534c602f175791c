"""Values of tasks that are kept: a command that was cut short goes on, and gives the same answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn.cluster.kept import kept
from sojourn.cluster.tasks import InProcess, Tasks, in_order
from sojourn.planning import evaluation
from sojourn.planning.answers import as_json
from sojourn.planning.evaluation import Evaluator
from sojourn.planning.plan import RETURNS, Questions, parse_sweep, plan
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import parse_target
from sojourn.results import writing

SYSTEM = """
stations.line = { discipline = "fifo", demand = { law = "exponential", mean = "10ms" } }
classes.members = { rate = "40/s", route = ["line"] }
"""


@dataclass(frozen=True)
class Root:
    value: float
    text: str


_ran: list[float] = []


def root(number: float) -> tuple[Root, float | None]:
    _ran.append(number)
    if number < 0:
        raise KeyboardInterrupt
    return Root(math.sqrt(number), str(number)), math.inf if number == 0 else None


def roots(path: Path | None, numbers: list[float], asked: object = "roots") -> list[tuple[Root, float | None]]:
    _ran.clear()
    with kept(InProcess(), path, asked) as tasks:
        return in_order(tasks.each(root, ((number,) for number in numbers)))


def test_what_was_cut_short_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    numbers = [2.0, 0.0, 1e-300, 3.0]
    with pytest.raises(KeyboardInterrupt):
        roots(path, [2.0, 0.0, 1e-300, -1.0])
    assert len(path.read_text().splitlines()) == 4
    assert roots(path, numbers) == roots(None, numbers)
    with pytest.raises(KeyboardInterrupt):
        roots(path, [2.0, -1.0])
    assert roots(path, numbers)
    assert _ran == [0.0, 1e-300, 3.0]
    assert not path.exists(), "the command is whole"


def test_values_of_another_command_or_damaged_ones_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    for damage in ('{"batch": 1, "place": 0, "value": [{"value": "x", "text": 1}, null]}\n', "half a li", "[]\n", ""):
        with pytest.raises(KeyboardInterrupt):
            roots(path, [2.0, 3.0, -1.0])
        whole = path.read_text().splitlines(keepends=True)
        path.write_text("".join(whole[:1]) + damage)
        assert roots(path, [2.0, 3.0]) == roots(None, [2.0, 3.0])
    with pytest.raises(KeyboardInterrupt):
        roots(path, [2.0, -1.0])
    roots(path, [2.0, 3.0], "another")
    assert _ran == [2.0, 3.0]


def test_values_that_cannot_be_written_are_had_all_the_same(tmp_path: Path) -> None:
    assert roots(tmp_path / "nowhere" / "progress.jsonl", [4.0]) == [(Root(2.0, "4.0"), None)]
    failure = writing.failure()
    assert failure is not None
    assert "progress.jsonl" in failure.what


class _Some(InProcess):
    """Runs so many tasks, then ends as Ctrl-C would."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.ran = 0

    def each(self, function, arguments, *, same_worker=False, ahead_max=None):  # type: ignore[no-untyped-def]
        def some() -> Iterator[tuple[object, ...]]:
            for words in arguments:
                if self.ran == self.left:
                    raise KeyboardInterrupt
                self.ran += 1
                yield words

        with closing(super().each(function, some())) as outcomes:
            yield from outcomes


def test_a_plan_has_the_same_answers_when_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Short simulations give rough answers, which must be the same all the same.
    monkeypatch.setattr(evaluation, "SEARCH_JOBS", 2000)
    monkeypatch.setattr(evaluation, "CONFIRMATION_JOBS", 4000)
    path = tmp_path / "progress.jsonl"

    def planned(tasks: Tasks) -> str:
        target, document = parse_target("mean < 30ms", SystemDocument.parse(SYSTEM, "system"))
        questions = Questions(sweeps=[parse_sweep("traffic=0.5..1.5", document)])
        with kept(tasks, path, "plan", RETURNS) as tasks:
            found = plan(document, target, Evaluator(target.metric), questions, tasks=tasks)
        return json.dumps(as_json(found))

    whole = _Some(1000)
    expected = planned(whole)
    first = _Some(whole.ran // 2)
    with pytest.raises(KeyboardInterrupt):
        planned(first)
    second = _Some(1000)
    assert planned(second) == expected
    # The task that was under way when it was interrupted may run again.
    assert first.ran + second.ran <= whole.ran + 1
