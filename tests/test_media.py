"""`sojourn media`: films of the rate that was asked for, copied into files of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conftest import run
from films import decoded, make_film, needs_ffmpeg


@needs_ffmpeg
def test_copies_are_files_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    arguments = ("media", "--output", folder, "--rate", "56k", "--seconds", "10", "--copies", "3", "--format", "json")
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    films = sorted(folder.glob("*.mp4"))
    assert [film.name for film in films] == [f"h264-56k-10s-{number:04d}.mp4" for number in range(3)]
    assert len({film.read_bytes() for film in films}) == 1
    assert len({film.stat().st_ino for film in films}) == 3
    assert {film.stat().st_nlink for film in films} == {1}
    assert (result["files"], result["files_written"]) == (3, 3)
    measured = result["measured"]
    assert measured["bits_per_second"] == pytest.approx(56_000, rel=0.1)
    assert measured["seconds"] == pytest.approx(10, abs=0.2)
    assert (measured["pictures"], measured["keyframes"]) == (100, 5)
    assert measured["bytes"] == films[0].stat().st_size
    names = [line.split()[0] for line in (folder / "filelist").read_text().splitlines()]
    assert names == [f"/{film.name}" for film in films]


@needs_ffmpeg
def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    film = make_film(tmp_path, "--copies", "3")
    modified = film.stat().st_mtime_ns
    copies = sorted(tmp_path.glob("*.mp4"))[1:]
    copies[0].write_bytes(b"cut off")
    # A link is no copy.
    copies[1].unlink()
    os.link(film, copies[1])
    make_film(tmp_path, "--copies", "3")
    assert film.stat().st_mtime_ns == modified
    assert {copy.read_bytes() for copy in copies} == {film.read_bytes()}
    assert film.stat().st_nlink == 1


@needs_ffmpeg
def test_every_picture_and_sound_decodes(tmp_path: Path) -> None:
    film = make_film(tmp_path)
    assert len(decoded(film, "v")) == 140
    assert len(decoded(film, "a")) == pytest.approx(14 * 22_050 / 1024, abs=3)


@needs_ffmpeg
def test_another_file_set_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    done = run("media", "--output", tmp_path, "--seconds", "1")
    assert done.returncode == 2
    assert "holds another file set" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rate", "300"), "is not the rate of a film"),
        (("--rate", "1k"), "--rate 1000 is not allowed"),
        (("--seconds", "0"), "--seconds 0 is not allowed"),
        (("--copies", "0"), "--copies 0 is not allowed"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: tuple[str, str], says: str) -> None:
    done = run("media", "--output", tmp_path / "films", *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "films").exists()


def test_without_ffmpeg_it_says_what_to_install(tmp_path: Path) -> None:
    done = run("media", "--output", tmp_path / "films", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr == "error: ffmpeg and ffprobe not found\nhint: install the package ffmpeg\n"
