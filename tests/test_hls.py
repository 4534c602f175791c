"""Films as HLS: what a player gets over HTTP is, picture by picture, the film."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import CHROMIUM
from films import decoded, make_film, needs_ffmpeg, serving

pytestmark = needs_ffmpeg


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_film(tmp_path_factory.mktemp("films"))


def get(url: str, **fields: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in fields.items()})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


@pytest.mark.parametrize("architecture", ["amped", "mp", "sped"])
def test_a_player_sees_and_hears_the_film(film: Path, architecture: str) -> None:
    with serving(film.parent, "--hls", "--architecture", architecture) as address:
        playlist = f"http://{address}/{film.name}/index.m3u8"
        assert decoded(playlist, "v") == decoded(film, "v")
        # The encoder's first block is before the film's start: a file says so to its player, which leaves it out.
        assert decoded(playlist, "a")[1:] == decoded(film, "a")


def test_h265_is_seen_too(tmp_path: Path) -> None:
    film = make_film(tmp_path, "--codec", "h265")
    with serving(film.parent, "--hls") as address:
        assert decoded(f"http://{address}/{film.name}/index.m3u8", "v") == decoded(film, "v")


def test_parts_are_cacheable_and_have_ranges(film: Path) -> None:
    with serving(film.parent, "--hls", "--cache-control", "m4s=max-age=86400") as address:
        at = f"http://{address}/{film.name}"
        status, fields, playlist = get(f"{at}/index.m3u8")
        assert (status, fields["Content-Type"]) == (200, "application/vnd.apple.mpegurl")
        names = re.findall(rb"^(?!#).+$", playlist, re.MULTILINE)
        assert names == [b"0.m4s", b"1.m4s", b"2.m4s"]
        durations = [float(text) for text in re.findall(rb"#EXTINF:([\d.]+),", playlist)]
        assert sum(durations) == pytest.approx(14, abs=0.1)
        _, fields, segment = get(f"{at}/1.m4s")
        assert fields["Cache-Control"] == "max-age=86400"
        assert get(f"{at}/1.m4s", If_None_Match=fields["ETag"])[0] == 304
        status, part, content = get(f"{at}/1.m4s", Range="bytes=100-199")
        assert (status, content, part["ETag"]) == (206, segment[100:200], fields["ETag"])
        assert get(f"{at}/3.m4s")[0] == 404
        assert get(at)[2] == film.read_bytes()


def test_a_server_that_was_not_asked_has_none(film: Path) -> None:
    with serving(film.parent) as address:
        assert get(f"http://{address}/{film.name}/index.m3u8")[0] == 404


PAGE = """<!doctype html><video muted></video><script>
const once = (target, name) => new Promise(resolve => target.addEventListener(name, resolve, {once: true}));
const get = name => fetch("FILM/" + name);
async function play(video) {
  const playlist = await (await get("index.m3u8")).text();
  const names = playlist.split("\\n").filter(line => line && !line.startsWith("#"));
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await once(source, "sourceopen");
  const buffer = source.addSourceBuffer('video/mp4; codecs="avc1.42C00B,mp4a.40.2"');
  for (const name of [playlist.match(/MAP:URI="(.+)"/)[1], ...names]) {
    buffer.appendBuffer(await (await get(name)).arrayBuffer());
    await once(buffer, "updateend");
  }
  source.endOfStream();
  video.currentTime = 7;
  await once(video, "seeked");
  video.playbackRate = 4;
  await video.play();
  await once(video, "ended");
  const pieces = Array.from(video.buffered, (_, i) => [video.buffered.start(i), video.buffered.end(i)]);
  return {pieces, width: video.videoWidth, pictures: video.getVideoPlaybackQuality().totalVideoFrames};
}
const video = document.querySelector("video");
const failed = new Promise((_, reject) => video.addEventListener("error", () => reject(video.error.message)));
Promise.race([play(video), failed]).catch(error => ({error: String(error)})).then(
  result => fetch("REPORT", {method: "POST", mode: "no-cors", body: JSON.stringify(result)}));
</script>"""


class Report(BaseHTTPRequestHandler):
    """Takes what a page tells."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.reports.put(json.loads(body))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")
def test_a_browser_plays_and_seeks(tmp_path: Path) -> None:
    film = make_film(tmp_path / "films")
    assert CHROMIUM is not None
    with ThreadingHTTPServer(("127.0.0.1", 0), Report) as reporting, serving(film.parent, "--hls") as address:
        reporting.reports = queue.Queue()  # type: ignore[attr-defined]
        threading.Thread(target=reporting.serve_forever, daemon=True).start()
        report = f"http://127.0.0.1:{reporting.server_port}/"
        (film.parent / "play.html").write_text(PAGE.replace("FILM", film.name).replace("REPORT", report))
        quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
        browser = [
            CHROMIUM,
            *quiet,
            "--autoplay-policy=no-user-gesture-required",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        command = [*browser, "--remote-debugging-port=0", f"http://{address}/play.html"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                result = reporting.reports.get(timeout=120)  # type: ignore[attr-defined]
            finally:
                process.terminate()
                process.wait(20)
                reporting.shutdown()
    assert "error" not in result, result
    ((start, end),) = result["pieces"]
    assert (start, end) == (pytest.approx(0, abs=0.1), pytest.approx(14, abs=0.2))
    assert result["width"] == 176
    assert result["pictures"] > 0
