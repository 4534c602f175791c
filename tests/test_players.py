"""Films of many forms as players get them: every sample of the file, by UDP, in the connection and over HTTP."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from films import needs_ffmpeg, serving
from test_stream import decoder, hashes, parcels, streaming, sums

pytestmark = needs_ffmpeg

SOUND = 1


def make(path: Path, *options: str) -> None:
    """A film by ffmpeg, of pictures and a tone."""
    command = ["ffmpeg", "-nostdin", "-v", "error", *options, "-threads", "1", str(path)]
    subprocess.run(command, check=True, timeout=120)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    pictures, tone = ("-f", "lavfi", "-i"), ("-f", "lavfi", "-i", "sine=sample_rate=22050")
    coded = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac")
    make(folder / "whole.mp4", *pictures, "testsrc2=size=176x144:rate=10", *tone, "-t", "5", *coded, "-g", "30")
    # Cut without coding it again: sound from 1.5 s of the film on, pictures from the first key picture after that.
    make(folder / "late.mp4", "-i", str(folder / "whole.mp4"), "-ss", "1.5", "-c", "copy")
    noise = "testsrc2=size=1280x720:rate=5,noise=alls=60"
    make(folder / "large.mp4", *pictures, noise, *tone, "-t", "1", *coded, "-preset", "ultrafast", "-qp", "40")
    return folder


def test_sound_is_heard_before_the_first_picture(films: Path) -> None:
    film = str(films / "late.mp4")
    with streaming(films) as server, serving(films, "--hls") as address:
        sources = [(server.url("late.mp4"), "-rtsp_transport", way) for way in ("udp", "tcp")]
        sources.append((f"http://{address}/late.mp4/index.m3u8",))
        playing = [(decoder(*source), parcels(*source)) for source in sources]
        pictures, sounds = hashes(decoder(film)), sums(parcels(film), SOUND)
        for (seen, heard), source in zip(playing, sources, strict=True):
            assert hashes(seen) == pictures, source
            assert sums(heard, SOUND) == sounds, source


def test_a_picture_of_many_slots_comes_whole(films: Path) -> None:
    film = films / "large.mp4"
    probe = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=size", "-of", "csv=p=0"]
    probed = subprocess.run([*probe, str(film)], capture_output=True, text=True, check=True, timeout=60)
    # More than leaves at once, and less than what receivers have room for before they read.
    assert 128 * 1024 < max(map(int, probed.stdout.split())) < 400_000
    with streaming(films) as server:
        playing = [decoder(server.url(film.name), "-rtsp_transport", way) for way in ("udp", "tcp")]
        assert [hashes(decoding) for decoding in playing] == [hashes(decoder(str(film)))] * 2
