from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sojourn import _native
from sojourn.failure import CouldNotRun
from sojourn.workload import fileset
from sojourn.workload.fileset import LogNormal


def test_webstone_is_the_standard_list(tmp_path: Path) -> None:
    files = fileset.webstone()
    assert sum(file.weight for file in files.files) == 1000
    assert files.summary()["response_bytes_mean"] == 19_773.0
    assert fileset.write(files, tmp_path, 10**8) == 5
    assert (tmp_path / "filelist").read_text().splitlines()[0] == "/file500.html 350 #500"
    assert (tmp_path / "file5m.html").stat().st_size == 5_248_000


@pytest.mark.parametrize(("load", "directories"), [(100, 90), (200, 156), (1000, 680), (3000, 1992)])
def test_web99_scales_with_the_load(load: int, directories: int) -> None:
    files = fileset.web99(load)
    assert len(files.files) == 36 * directories
    assert files.total_bytes == 5_119_484 * directories
    assert files.files[35].path == "/file_set/dir00000/class3_8"
    assert files.summary()["response_bytes_mean"] == pytest.approx(14_727, abs=1)


def test_web99_classes_and_files_have_their_shares() -> None:
    files = fileset.web99(1).files
    total = sum(file.weight for file in files)
    for number, share in enumerate((0.35, 0.50, 0.14, 0.01)):
        found = sum(file.weight for file in files if file.file_class == f"class{number}")
        assert found / total == pytest.approx(share)
    of_class = [file.weight for file in files if file.path.endswith("dir00000/class1_4")]
    first = [file.weight for file in files if "dir00000/class1_" in file.path]
    assert of_class[0] / sum(first) == pytest.approx(0.3535, abs=1e-4)


def test_lognormal_sizes_follow_their_law_and_their_seed() -> None:
    law = LogNormal(files=50_000, mean_bytes=10_000, cv=2.0)
    sizes = np.array([file.bytes for file in fileset.lognormal(law).files], float)
    # The standard error of the mean is 2/sqrt(50000) = 0.9 % of it.
    assert sizes.mean() == pytest.approx(10_000, rel=0.036)
    assert np.log(sizes).std() == pytest.approx(np.sqrt(np.log(5)), rel=0.02)
    assert fileset.lognormal(law) == fileset.lognormal(law)
    assert fileset.lognormal(law) != fileset.lognormal(LogNormal(files=50_000, mean_bytes=10_000, cv=2.0, seed=2))


def test_a_tail_is_paretos() -> None:
    law = LogNormal(files=100_000, mean_bytes=10_000, cv=1.0, tail_index=1.5, tail_fraction=0.1, largest_bytes=10**12)
    sizes = np.sort([file.bytes for file in fileset.lognormal(law).files])[-10_000:]
    # Hill's estimator; its relative standard error is 1/sqrt(10000).
    index = 1 / np.log(sizes / sizes[0]).mean()
    assert index == pytest.approx(1.5, rel=0.05)


def test_a_file_set_can_be_written_again_but_not_over_another(tmp_path: Path) -> None:
    files = fileset.lognormal(LogNormal(files=20, mean_bytes=1000, cv=1.0))
    assert fileset.write(files, tmp_path, 10**7) == 20
    (tmp_path / files.files[3].path.lstrip("/")).unlink()
    assert fileset.write(files, tmp_path, 10**7) == 1
    with pytest.raises(CouldNotRun, match="another file set"):
        fileset.write(fileset.webstone(), tmp_path, 10**8)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [entry["bytes"] for entry in manifest["entries"]] == [file.bytes for file in files.files]
    assert manifest["total_bytes"] == files.total_bytes
    assert set(manifest["entries"][0]) == {"path", "bytes", "class", "weight"}


def test_a_log_s_documents_are_where_replay_looks_for_them(small_log: Path, tmp_path: Path) -> None:
    files = fileset.from_trace(_native.import_log(str(small_log)), small_log.name)
    assert sum(file.weight for file in files.files) == 600
    assert files.files[0].path == "/000/000000-4000"
    assert fileset.filelist(files).splitlines()[0] == "/000/000000-4000 200 #4000"


@pytest.mark.parametrize("change", [{"files": 0}, {"cv": -1.0}, {"tail_fraction": 1.5}, {"zipf": float("nan")}])
def test_laws_that_cannot_be_are_refused(change: dict[str, float]) -> None:
    values = {"files": 10, "mean_bytes": 1000.0, "cv": 1.0} | change
    with pytest.raises(CouldNotRun) as refusal:
        fileset.lognormal(LogNormal(**values))  # type: ignore[arg-type]
    assert refusal.value.hint
