"""`sojourn memory` as a person or a script meets it."""

from __future__ import annotations

import json
from pathlib import Path

import polars

from conftest import run

TINY = ("memory", "--density", "quick", "--to", "8KiB", "--repetitions", "2", "--measure", "100us")


def test_json_has_every_place_of_the_grid() -> None:
    done = run(*TINY, "--format", "json", "--huge-pages", "both")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # 512 B, 2 KiB and 8 KiB; three strides of four kernels, one of the block copy; with huge pages and without.
    assert len(found["points"]) == 3 * (3 * 4 + 1) * 2
    assert len(found["latencies"]) == 3 * 2
    assert found["complete"] is True
    for point in found["points"]:
        spread = point["bytes_per_second"]
        assert 0 < spread["min"] <= spread["median"] <= spread["max"]
        # Faster than 10 MB/s and slower than any processor's nearest cache.
        assert 1e7 < spread["median"] < 1e13
    assert all(1e-11 < each["seconds_per_load"]["median"] < 1e-5 for each in found["latencies"])


def test_a_folder_has_the_page_the_tables_and_the_plots(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    done = run(*TINY, "--output", folder)
    assert done.returncode == 0, done.stderr
    assert "load-sum, GB/s by stride in words" in done.stdout
    assert "latency of dependent loads" in done.stdout
    page = (folder / "report.html").read_text()
    assert page.count('class="surface"') == 4  # the block copy has one stride: no surface
    assert "working set of each core" in page
    assert polars.read_parquet(folder / "points.parquet").height == 3 * 13
    assert (folder / "plots" / "latency.svg").read_text().startswith("<svg")
    again = run(*TINY, "--output", folder)
    assert again.returncode == 2
    assert "already holds a run" in again.stderr


def test_bad_input_is_refused_with_its_cure() -> None:
    for arguments, said in (
        (("--kernel", "memcpy"), "copy-block"),
        (("--to", "8"), "write a number and a unit"),
        (("--from", "1MiB", "--to", "1KiB"), "swap --from and --to"),
        (("--strides", "1,x"), "1,8,64"),
        (("--strides", "0"), "stride 0 is out of range"),
        (("--cores", "4096"), "4096 cores are more than"),
    ):
        done = run("memory", "--density", "quick", *arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr, (arguments, done.stderr)
        assert done.stdout == ""
