"""A budget for all studies: planned points that a share was too short for are measured before anything is repeated."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sojourn.commands import study as command


def _done(name: str, ending: str) -> command._Done:
    part = command._Part(Path(f"{name}.toml"), "", cast("Any", None), Path(name), seconds=1.0)
    return command._Done(part, ending=ending)


@pytest.mark.parametrize(
    ("endings", "left", "continued"),
    [
        (["complete", "out of time", "out of time"], 60.0, ["b", "c"]),
        (["complete", "complete", "complete"], 60.0, []),
        (["out of time", "out of time", "interrupted"], 60.0, []),
        (["out of time", "complete", "complete"], 0.0, []),
    ],
)
def test_studies_that_ran_out_of_their_share_are_finished(
    endings: list[str], left: float, continued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict[str, float]()

    def finished(part: command._Part, asked: object, *, may_repeat: bool) -> command._Done:
        assert not may_repeat
        given[part.folder.name] = part.seconds or 0.0
        return replace(command._Done(part), ending="complete")

    monkeypatch.setattr(command, "_run", finished)
    done = {Path(name): _done(name, ending) for name, ending in zip("abc", endings, strict=True)}
    found = command._finish(done, cast("Any", None), time.monotonic() + left)
    assert [each.name for each in found] == continued == list(given)
    assert all(50 < seconds <= left for seconds in given.values())
    assert [done[Path(name)].ending for name in continued] == ["complete"] * len(continued)
