"""`sojourn load http://….m3u8`: what viewers of HLS see, by servers that do well, stall, refuse and talk rubbish."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import run
from films import make_film, needs_ffmpeg, serving
from playlist_server import SEGMENT, after, playlist, playlist_server

NAMES = [f"{number}.ts" for number in range(60)]
WHOLE = {f"/{name}": SEGMENT for name in NAMES}
FILM = {"/film.m3u8": playlist(NAMES), **WHOLE}
LENIENT = ("--lag-limit", "20s", "--timeout", "60s", "--first-packet-timeout", "60s", "--silence-timeout", "60s")
"""On a busy machine nobody is late: the server's and the generator's own delays say nothing here."""


def load(*words: object, code: int = 0) -> Any:
    done = run("load", *words, *LENIENT, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@needs_ffmpeg
def test_our_own_films_are_played_with_rows_and_a_page(tmp_path: Path) -> None:
    film = make_film(tmp_path / "films")
    rows, families, kept = tmp_path / "rows.csv", tmp_path / "hls.prom", tmp_path / "run"
    with serving(film.parent, "--hls") as address:
        url = f"http://{address}/{film.name}/index.m3u8"
        outputs = ("--csv", rows, "--prometheus", families, "--output", kept, "--interval", "200ms")
        result = load(url, "--clients", "3", "--duration", "2s", *outputs, "--threshold", "segment.p50<60s")
        drawn = run("load", url, *LENIENT, "--duration", "300ms")
    streams, segments = result["streaming"]["streams"], result["streaming"]["segments"]
    assert (result["kind"], result["connection"]) == ("streams", "http")
    assert (streams["judged"], streams["conforming"]) == (3, 3)
    # The film has three segments, and a player has room for all.
    assert (segments["received"], segments["expected"], segments["lost"], segments["late"]) == (9, 9, 0, 0)
    assert result["startup_time_seconds"]["count"] == 3
    assert result["thresholds"][0]["passed"]
    with rows.open() as file:
        table = list(csv.DictReader(file))
    assert max(float(row["streams_playing"]) for row in table) == 3
    assert sum(float(row["segments_per_second"]) for row in table) > 0
    assert "sojourn_load_segments_received 9" in families.read_text()
    page = (kept / "report.html").read_text()
    assert "Segments lost" in page
    assert "NaN" not in page
    assert "asking until a whole segment" in drawn.stdout


def test_variants_maps_and_bytes_of_one_file() -> None:
    master = (
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=900000\nhigh/a.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=300000\nlow/a.m3u8\n"
    )
    parts = "#EXTINF:2,\n#EXT-X-BYTERANGE:700\nall.mp4\n" * 3
    low = f'#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MAP:URI="all.mp4",BYTERANGE="100@0"\n{parts}#EXT-X-ENDLIST\n'
    low = low.replace("700", "700@100", 1)
    documents = {"/film.m3u8": master.encode(), "/low/a.m3u8": low.encode(), "/low/all.mp4": bytes(2_200)}
    with playlist_server(documents) as server:
        result = load(server.url(), "--variant", "lowest", "--duration", "1s")
        refused = load(server.url(), "--variant", "3", "--duration", "1s")
    assert result["streaming"]["segments"]["received"] == 3
    assert result["streaming"]["streams"]["conforming"] == 1
    ranges = [wanted for path, wanted in server.asked if path == "/low/all.mp4"]
    assert ranges[:4] == ["bytes=0-99", "bytes=100-799", "bytes=800-1499", "bytes=1500-2199"]
    assert any("2 variants" in warning for warning in refused["warnings"])
    assert any("lower --buffer" in warning for warning in result["warnings"])


def test_a_player_asks_for_no_more_than_it_has_room_for() -> None:
    with playlist_server(FILM) as server:
        result = load(server.url(), "--duration", "1s", "--prebuffer", "2s", "--buffer", "5s")
        wide = load(server.url(), "--clients", "8", "--duration", "1s", "--random-start", "--slow", "50%")
    # Five segments at once, then one a second; a busy machine may take seconds for all that, but not a minute.
    assert 1 <= result["streaming"]["segments"]["received"] < len(NAMES)
    assert wide["streaming"]["streams"]["slow"] > 0
    assert len({path for path, _ in server.asked if path.endswith(".ts")}) > 6


def test_a_server_that_stalls_starves_its_viewers() -> None:
    documents = {**WHOLE, "/film.m3u8": playlist(NAMES, seconds=0.5), "/3.ts": after(3, SEGMENT)}
    with playlist_server(documents) as server:
        result = load(server.url(), "--duration", "4s", "--prebuffer", "1s", "--buffer", "1500ms")
    streaming = result["streaming"]
    assert streaming["streams"]["faults"] == {"starved": 1}
    assert streaming["segments"]["late"] >= 1
    assert streaming["starvation"]["streams"] == 1
    assert streaming["starvation"]["seconds"] > 0.5


def test_what_servers_do_wrong_is_named() -> None:
    wrong = {
        "/gone.m3u8": playlist(["gone.ts"]),
        "/rubbish.m3u8": b"<html>no film</html>",
        "/long.m3u8": b"#EXTM3U\n" + b"#EXTINF:1,\na\n" * 400_000,
        "/elsewhere.m3u8": b"#EXTM3U\n#EXTINF:1,\nhttp://192.0.2.1/a.ts\n#EXT-X-ENDLIST\n",
    }
    with playlist_server({**FILM, **wrong}) as server:
        urls = [server.url(path) for path in ("/film.m3u8", "/none.m3u8", *wrong)]
        result = load(*urls, "--clients", "6", "--duration", "2s")
    streams = result["streaming"]["streams"]
    assert (streams["judged"], streams["conforming"]) == (6, 1)
    assert streams["faults"] == {"refused": 2, "failed": 3}
    assert streams["refused_by_status"] == {"404": 2}
    assert streams["failures_by_cause"] == {"bad_reply": 3}
    for said in ("is not a playlist", "too long for a playlist", "another server"):
        assert any(said in warning for warning in result["warnings"]), result["warnings"]


def test_connections_that_are_closed_between_answers_are_opened_again() -> None:
    with playlist_server(FILM, answers_max=2) as server:
        viewers = ("--clients", "4", "--slow", "25%", "--slow-rate", "2Mbit/s", "--vanish", "25%")
        streams = load(server.url(), *viewers, "--duration", "1s", "--buffer", "6s")["streaming"]["streams"]
    assert streams["conforming"] == streams["judged"]
    assert streams["judged"] + streams["slow"] + streams["vanishing"] == 4
    assert not streams["failures_by_cause"]


def test_a_live_film_is_followed_and_what_it_drops_is_lost() -> None:
    lists = itertools.chain(
        [playlist(NAMES[:6], is_ended=False), playlist(NAMES[1:8], first=1, is_ended=False)],
        # Nobody could have had 8.ts.
        itertools.repeat(playlist(NAMES[9:12], first=9)),
    )
    with playlist_server({**WHOLE, "/film.m3u8": lambda: next(lists)}) as server:
        result = load(server.url(), "--duration", "4s", "--prebuffer", "1s")
    asked = [path for path, _ in server.asked if path.endswith(".ts")]
    assert asked[:8] == [f"/{number}.ts" for number in (3, 4, 5, 6, 7, 9, 10, 11)]
    assert result["streaming"]["segments"]["lost"] == 1


def test_a_search_finds_how_many_are_carried() -> None:
    with playlist_server(FILM) as server:
        wanted = ("--search", "conforming>=99%", "--search-precision", "90%", "--search-time", "2s")
        result = load(server.url(), "--clients", "2", "--duration", "200ms", *wanted)
    assert result["unit"] == "streams"
    assert result["loads"][0]["passed"] == result["loads"][0]["runs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:1/a.m3u8", "--transport", "tcp"), "leave it out for HLS"),
        (("http://127.0.0.1:1/a.m3u8", "rtsp://127.0.0.1:1/a"), "not both"),
        (("https://127.0.0.1:1/a.m3u8",), "over http:// only"),
        (("http://127.0.0.1:1/a", "--hls", "--buffer", "1s"), "raise --buffer"),
        (("http://127.0.0.1:1/a.m3u8", "--variant", "best"), "lowest, highest"),
    ],
)
def test_slips_are_refused(words: tuple[str, ...], said: str) -> None:
    done = run("load", *words)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
