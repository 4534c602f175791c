"""What is generated from the engine is what the installed engine would give."""

from pathlib import Path

import pytest

from scripts import generated
from sojourn import engine

FILES = generated.files(str(engine.path()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == FILES[path], "run scripts/generate"
