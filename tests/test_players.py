"""Films of many forms as players get them: every sample of the file, by UDP, in the connection and over HTTP."""

from __future__ import annotations

import re
import subprocess
import urllib.request
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
    # Cut so, begun with the key picture before, which an edit list hides.
    make(folder / "begun.mp4", "-ss", "4.5", "-i", str(folder / "whole.mp4"), "-c", "copy")
    make(folder / "turned.mp4", "-i", str(folder / "whole.mp4"), "-c", "copy", "-metadata:s:v", "rotate=90")
    noise = "testsrc2=size=1280x720:rate=5,noise=alls=60"
    make(folder / "large.mp4", *pictures, noise, *tone, "-t", "1", *coded, "-preset", "ultrafast", "-qp", "40")
    return folder


def probed(source: str, entries: str) -> list[str]:
    """What ffprobe says of a source, without what it says twice."""
    command = ["ffprobe", "-v", "error", "-show_entries", entries, "-of", "csv=p=0", source]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return sorted({line for line in done.stdout.splitlines() if line})


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
    # More than leaves at once, and less than what receivers have room for before they read.
    assert 128 * 1024 < max(int(line.rstrip(",")) for line in probed(str(film), "packet=size")) < 400_000
    with streaming(films) as server:
        playing = [decoder(server.url(film.name), "-rtsp_transport", way) for way in ("udp", "tcp")]
        assert [hashes(decoding) for decoding in playing] == [hashes(decoder(str(film)))] * 2


def test_http_begins_where_decoding_does(films: Path) -> None:
    """What a film's edit list hides comes first, as long as the playlist says, and its first picture is at 0."""
    film = films / "begun.mp4"
    hidden, seen = (hashes(decoder(str(film), *options)) for options in (("-ignore_editlist", "1"), ()))
    assert hidden[-len(seen) :] == seen
    assert len(hidden) > len(seen)
    with serving(films, "--hls") as address:
        playlist = f"http://{address}/{film.name}/index.m3u8"
        assert hashes(decoder(playlist)) == hidden
        with urllib.request.urlopen(playlist, timeout=60) as response:
            lengths = re.findall(rb"#EXTINF:([\d.]+)", response.read())
        assert sum(map(float, lengths)) == pytest.approx(len(hidden) / 10, abs=0.11)
        whole = probed(f"http://{address}/whole.mp4/index.m3u8", "stream=codec_type,start_time")
        assert [line for line in whole if line.startswith("video")] == ["video,0.000000"]


def test_pictures_that_are_to_be_turned_are(films: Path) -> None:
    entries = "stream_side_data=rotation"
    rotation = probed(str(films / "turned.mp4"), entries)
    assert any("90" in line for line in rotation)
    with serving(films, "--hls") as address:
        assert probed(f"http://{address}/turned.mp4/index.m3u8", entries) == rotation
