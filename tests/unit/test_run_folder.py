import re
from pathlib import Path

import pytest

from sojourn.failure import CouldNotRun
from sojourn.results.run_folder import RunFolder


def test_what_cannot_be_written_says_where_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    # A folder where the file is to be: root can write everywhere else.
    (folder.path / "points.parquet").mkdir()
    target = re.escape(str(folder.path / "points.parquet"))
    with pytest.raises(CouldNotRun, match=f"cannot write {target}: Is a directory"):
        folder.write_table("points.parquet", [{"rate": 1.0}])
    assert [path.name for path in folder.path.glob("*.partial")] == []
