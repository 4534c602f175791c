"""`sojourn export-jmt` and `import-jmt` as a person or a script meets them."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import REPOSITORY, run

SITE = REPOSITORY / "studies" / "systems" / "public-site.toml"


def test_a_model_goes_out_comes_back_and_is_simulated(tmp_path: Path) -> None:
    model, back = tmp_path / "site.jsimg", tmp_path / "site.toml"
    done = run("export-jmt", SITE, model)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "warning: class visitors: the document size that web, line share" in done.stderr
    done = run("import-jmt", model, "--output", back)
    assert done.returncode == 0, done.stderr
    done = run("simulate", back, "--half-width", "0.05", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert 0.2 < json.loads(done.stdout)["response_time_seconds"]["mean"] < 0.4


def test_json_holds_the_model_and_the_warnings(tmp_path: Path) -> None:
    model = tmp_path / "site.jmva"
    exported = json.loads(run("export-jmt", SITE, model, "--format", "json").stdout)
    assert exported["model"] == model.read_text()
    assert any("limit of 16 jobs" in warning for warning in exported["warnings"])
    imported = json.loads(run("import-jmt", model, "--format", "json").stdout)
    assert "[stations.web]" in imported["system_file"]


def test_bad_input_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[stations.web]\n")
    for arguments, said in (
        (("export-jmt", broken, tmp_path / "a.jsimg"), "line 1"),
        (("export-jmt", tmp_path / "none.toml", tmp_path / "a.jsimg"), "none.toml"),
        (("export-jmt", SITE, tmp_path / "a.xml"), ".jsimg or .jmva"),
        (("export-jmt", SITE, tmp_path / "nowhere" / "a.jmva"), "cannot write"),
        (("import-jmt", tmp_path / "none.jsimg"), "none.jsimg"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith("error: "), done.stderr
        assert said in done.stderr
