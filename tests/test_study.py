"""`sojourn study` as a person meets it: a real study from beginning to end, killed on its way and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import SOJOURN, run
from example_run import write_example
from films import needs_ffmpeg
from sojourn.report.study.index import write_index

SETTLE_LIMIT_SECONDS = 60.0
STUDY = """
name = "test/small"
title = "Two event loops and a URL that nobody answers at"
source = "nobody"
question = "does it run?"
repetitions = 3
warm_up_seconds = 0.2
duration_seconds = 0.5
systems = [
  { name = "sped", architecture = "sped" },
  { name = "amped", architecture = "amped", options = ["--residency", "{test}"] },
  { name = "gone", system = "http://127.0.0.1:9" },
]
factors = { size = ["100KiB", "1KiB"], test = ["mincore"] }
workload = { files = [{ path = "/file", size = "{size}" }], load = ["--clients", "2"] }
plots = [{ title = "rate", x = "size", y = "server.cpu_per_request" }]

[[checks]]
says = "large files cost more"
metric = "server.cpu_per_request"
left = { size = "100KiB" }
right = { size = "1KiB" }
least = 1
"""


def points(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "points").glob("*.json")}


def servers_of(program: str) -> list[int]:
    """Processes that serve a site of a study that this test started, by their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if program.encode() in (entry / "environ").read_bytes() and b"serve" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_study_that_was_killed_goes_on(tmp_path: Path) -> None:
    file, folder = tmp_path / "small.toml", tmp_path / "run"
    file.write_text(STUDY)
    command = [str(SOJOURN), "study", str(file), "--output", str(folder)]
    marked = f"STUDY_TEST={tmp_path}"
    process = subprocess.Popen(command, env={**os.environ, "STUDY_TEST": str(tmp_path)}, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    while len(points(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = points(folder)
    assert 2 <= len(before) < 12
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    while servers_of(marked) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not servers_of(marked), "the server under test ends with the study"

    done = run("study", file, "--output", folder, "--format", "json")
    assert done.returncode == 1, "a system was missing"
    (found,) = json.loads(done.stdout)["studies"]
    assert (found["ending"], found["points"], found["points_planned"]) == ("complete", 12, 18)
    assert list(found["missing"]) == ["gone"]
    assert "start the server first" in found["missing"]["gone"]
    after = points(folder)
    assert len(after) == 12
    assert before.items() <= after.items(), "no point was measured again"
    # A hundred times the bytes cost more on any machine; what chance does decides how sure that is.
    assert found["verdicts"][0]["finding"] in ("holds", "not decided")
    for cell in found["cells"]:
        assert 1e-7 < cell["server.cpu_per_request"]["value"] < 0.1
    page = (folder / "report.html").read_text()
    assert "gone was left out" in page
    assert 'class="mark' in page

    file.write_text(STUDY.replace("duration_seconds = 0.5", "duration_seconds = 0.6"))
    refused = run("study", file, "--output", folder)
    assert refused.returncode == 2
    assert "duration_seconds was 0.5 and is 0.6" in " ".join(refused.stderr.split())
    assert "another --output" in refused.stderr


REPLAY = """
name = "test/replay"
title = "A log, replayed"
source = "nobody"
question = "does it run?"
repetitions = 1
warm_up_seconds = 0.1
duration_seconds = 0.6
systems = [
  { name = "sped", architecture = "sped" },
  { name = "any", run = ["PYTHON", "-m", "http.server", "{port}", "--bind", "{address}", "--directory", "{root}"] },
]
factors = { scale = [300] }
workload = { replay = ["--scale", "{scale}"], cold = true }
plots = [{ title = "first byte", x = "scale", y = "ttfb.p95" }]
"""


def test_a_log_is_replayed_against_cold_files_and_any_command(tmp_path: Path, small_log: Path) -> None:
    file, folder = tmp_path / "replay.toml", tmp_path / "run"
    file.write_text(REPLAY.replace("PYTHON", sys.executable))
    done = run("study", file, "--output", folder, "--log", small_log, "--format", "json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["studies"]
    assert {cell["settings"]["system"] for cell in found["cells"]} == {"any", "sped"}
    for cell in found["cells"]:
        assert cell["ttfb.p95"]["value"] > 0, cell
    record = json.loads((folder / "points" / "001-0000.json").read_text())
    assert (record["failed"], record["errors"]) == (None, 0)


STREAMS = """
name = "test/streams"
title = "Viewers"
source = "nobody"
question = "does it run?"
repetitions = 1
warm_up_seconds = 0.2
duration_seconds = 1.5
systems = [{ name = "ours" }, { name = "gst", system = "gst-rtsp-server" }]
factors = { films = [1, 3] }
workload = { films = { rate = "56k", seconds = 5, number = "{films}" }, load = ["--clients", "3"], cold = true }

[[plots]]
title = "misses"
x = "films"
y = "server.llc_misses"
"""


@needs_ffmpeg
def test_viewers_play_films_from_a_streaming_server(tmp_path: Path) -> None:
    file, folder = tmp_path / "streams.toml", tmp_path / "run"
    file.write_text(STREAMS)
    done = run("study", file, "--output", folder, "--format", "json")
    (found,) = json.loads(done.stdout)["studies"]
    assert found["ending"] == "complete", done.stderr
    assert set(found["missing"]) <= {"gst"}
    records = [json.loads(path.read_text()) for path in (folder / "points").glob("*.json")]
    assert len(records) == 4 - 2 * len(found["missing"])
    for record in records:
        assert record["failed"] is None
        assert record["streams"]["started"] == 3
        # Three viewers of 56 kbit/s, with the heads of their packets.
        assert 3 * 40e3 < record["metrics"]["throughput"] < 3 * 200e3
        assert record["metrics"]["server.cpu_per_stream_second"] > 0
        assert 0 <= record["metrics"]["served"] <= record["metrics"]["conforming"] <= 1
        misses = record["metrics"]["server.llc_misses"]
        assert (misses is None) == ("server.llc_misses" in record["unavailable"])


LINKED = STUDY.replace('{ name = "gone", system = "http://127.0.0.1:9" },', "").replace(
    'load = ["--clients", "2"]', 'load = ["--clients", "2"], link = "--rate 8Mbit/s --network 10.83.0.0/24"'
)


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="a link needs root and TUN devices")
def test_clients_may_be_behind_a_link(tmp_path: Path) -> None:
    file, folder = tmp_path / "linked.toml", tmp_path / "run"
    file.write_text(LINKED.replace("repetitions = 3", "repetitions = 1").replace('["100KiB", "1KiB"]', '["100KiB"]'))
    done = run("study", file, "--output", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    for path in (folder / "points").glob("*.json"):
        record = json.loads(path.read_text())
        assert record["failed"] is None
        # Without it the loopback carries hundreds; the ends of a short run blur the line's eight.
        assert record["metrics"]["throughput"] < 16e6


SLOWED = STUDY.replace('{ name = "gone", system = "http://127.0.0.1:9" },', "").replace(
    'load = ["--clients", "2"]', 'load = ["--clients", "2"], cpu = "0.25"'
)


def test_a_server_may_have_less_than_its_core(tmp_path: Path) -> None:
    file, folder = tmp_path / "slowed.toml", tmp_path / "run"
    file.write_text(SLOWED.replace("repetitions = 3", "repetitions = 1").replace('["100KiB", "1KiB"]', '["1KiB"]'))
    done = run("study", file, "--output", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    (summary,) = json.loads(done.stdout)["studies"]
    for path in (folder / "points").glob("*.json"):
        record = json.loads(path.read_text())
        assert record["failed"] is None
        if record["cpu_unlimited"] is None:
            assert record["metrics"]["server.cpu"] < 0.35
        else:
            assert summary["cpu_unlimited"] == {record["cpu_unlimited"]: 2}
            assert record["cpu_unlimited"] in (folder / "report.html").read_text()


SLOW_DISK = SLOWED.replace('files = [{ path = "/file", size = "{size}" }]', 'files = "24 files of {size}"').replace(
    'cpu = "0.25"', 'disk = "4MiB/s"'
)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can limit a disk")
def test_a_server_may_have_a_slow_disk(tmp_path: Path) -> None:
    file, folder = tmp_path / "slow.toml", tmp_path / "run"
    file.write_text(SLOW_DISK.replace("repetitions = 3", "repetitions = 1").replace('["100KiB", "1KiB"]', '["1MiB"]'))
    done = run("study", file, "--output", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    for path in (folder / "points").glob("*.json"):
        record = json.loads(path.read_text())
        assert record["failed"] is None
        # What the limit lets through at once included; a machine's own disk is many times as fast.
        assert record["metrics"]["throughput"] < 8 * (20 << 20)


def test_the_index_says_how_far_models_were_off(tmp_path: Path) -> None:
    (tmp_path / "study" / "one").mkdir(parents=True)
    summary = {"study": "one", "title": "One", "source": "nobody", "points": 1, "points_planned": 1, "verdicts": []}
    (tmp_path / "study" / "one" / "study.json").write_text(json.dumps(summary))
    write_example(tmp_path / "assessed")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text("{}")
    page = write_index(tmp_path / "study")
    assert page is not None
    text = page.read_text()
    assert 'href="../assessed/report.html"' in text
    assert "steps held out" in text
    assert text.count("<tr>") == 5, "three heads, a study and an assessment"


def test_a_budget_that_is_over_leaves_a_folder_to_go_on_with(tmp_path: Path) -> None:
    file, folder = tmp_path / "small.toml", tmp_path / "run"
    file.write_text(STUDY)
    done = run("study", file, "--output", folder, "--budget", "1ms")
    assert done.returncode == 1
    assert "out of time: 0 points measured" in done.stderr
    assert "not enough points here: large files cost more" in done.stdout


def test_every_study_that_comes_along_can_be_read() -> None:
    done = run("study", "list", "--format", "json")
    assert done.returncode == 0, done.stderr
    names = [each["name"] for each in json.loads(done.stdout)]
    assert "flash/single-file" in names
    assert names == sorted(names)
    unknown = run("study", "flash/single-fil")
    assert unknown.returncode == 2
    assert "did you mean flash/single-file?" in unknown.stderr


SOLVED = """
name = "test/{name}"
title = "A line"
source = "nobody"
question = "do they agree?"
repetitions = 3
systems = [{{ name = "analysis", solver = "open" }}, {{ name = "simulation", solver = "simulation" }}]
factors = {{ rate = [8] }}
model = {{ system = "public-site", settings = ["class.visitors.rate={{rate}}/s"], half_width = 0.05 }}

[[checks]]
says = "they agree"
metric = "residence.line"
left = {{ system = "analysis" }}
right = {{ system = "simulation" }}
least = {least}
most = {most}
"""


def test_a_budget_for_all_studies_goes_to_what_is_open(tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "test"
    folder.mkdir(parents=True)
    (folder / "clear.toml").write_text(SOLVED.format(name="clear", least=0.5, most=2))
    (folder / "narrow.toml").write_text(SOLVED.format(name="narrow", least=0.995, most=1.005))
    done = run("study", "--all", "--budget", "2m", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    clear, narrow = json.loads(done.stdout)["studies"]
    assert [each["finding"] for each in clear["verdicts"]] == ["holds"]
    assert clear["points_repeated"] == 0
    assert narrow["points_repeated"] > 0, "the time that was left is spent on what was open"
    (verdict,) = narrow["verdicts"]
    assert verdict["evidence"] == "simulated"
    assert verdict["finding"] == "holds" or verdict["repetitions"] > 3
    assert (tmp_path / "runs" / "study" / "index.html").is_file()
