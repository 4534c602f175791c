"""The page of all studies: findings counted by source and written down, made of the folders alone."""

from __future__ import annotations

import json
from pathlib import Path

from scripted_study import TEXT, folder, scripted

from benchmarks.studies.__main__ import chosen
from benchmarks.studies.page import page
from sojourn.report.study.index import Assessed, summaries
from sojourn.report.study.page import write
from sojourn.study.findings import find
from sojourn.study.folder import ENVIRONMENTS
from sojourn.study.runner import run


def made(runs: Path, name: str, source: str) -> None:
    text = TEXT.replace("test/scripted", name).replace('"nobody"', f'"{source}"')
    begun = folder(runs / name, text)
    run(begun, scripted)
    write(begun, find(begun))
    begun.run.write_json(ENVIRONMENTS, [{"processor": "one | two"}])


def test_findings_are_counted_and_written_in_the_order_of_their_sources(tmp_path: Path) -> None:
    made(tmp_path, "a", "The source, figure 10")
    made(tmp_path, "b", "The source, figure 2")
    made(tmp_path, "c", "Another, table 1")
    assessed = Assessed(tmp_path / "shop", "access.log", "nginx", "3 of 9", ["1 %: met", "no step", "30 %"], "waiting")
    text = page(summaries(tmp_path), [assessed], "sojourn study --all", "abc")
    assert "Of 3 findings: 3 hold (3 measured)." in text
    assert "| measured | 3 | 3 | 0 | 0 | 0 |" in text
    assert "| The source | 2 | 48 | 2 | 2 | 0 | 0 | 0 |" in text
    assert "| all | 3 | 72 | 3 | 3 | 0 | 0 | 0 |" in text
    assert text.index("(figure 2)") < text.index("(figure 10)")
    assert "| fast is faster | holds | measured | rps: fast over slow is as expected at each of 3 places" in text
    assert "| shop | access.log | nginx | 3 of 9 | 1 %: met | no step | 30 % | waiting |" in text
    assert "one \\| two" in text, "what is in a cell does not end it"


def test_what_a_study_gave_up_stands_beside_it(tmp_path: Path) -> None:
    made(tmp_path, "a", "The source, figure 1")
    summary = tmp_path / "a" / "run" / "study.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"given_up": ["3 of 5 repetitions"]}))
    assert "`a`, 24 points; 3 of 5 repetitions" in page(summaries(tmp_path), [], "sojourn study --all", "abc")


def test_a_study_that_was_run_alone_stands_in_the_place_of_its_share() -> None:
    found = [
        (Path("runs/study/flash/alignment-3h"), {"study": "flash/alignment"}),
        (Path("runs/study/flash/alignment-quick"), {"study": "flash/alignment"}),
        (Path("runs/study/memory/bandwidth"), {"study": "memory/bandwidth"}),
        (Path("runs/study/memory/bandwidth-3h"), {"study": "memory/bandwidth"}),
    ]
    assert chosen(found, "-3h") == [found[0], found[2]]
