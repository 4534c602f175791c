"""`sojourn stream` with players that others have written: whole films, seeks, slow and vanishing clients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SOJOURN
from streaming_server import (
    PICTURES_PER_SECOND,
    SECONDS,
    TIMEOUT_SECONDS,
    decoder,
    hashes,
    make_large_film,
    make_short_film,
    streaming,
)

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film with pictures that are decoded in another order than they are shown, and with sound."""
    folder = tmp_path_factory.mktemp("films")
    make_short_film(folder / "film.mp4")
    closed = ("-x265-params", "log-level=error:no-open-gop=1", "-tag:v", "hvc1")
    make_short_film(folder / "newer.mp4", "libx265", *closed)
    make_large_film(folder / "large.mp4")
    return folder


def test_a_player_sees_every_picture(films: Path) -> None:
    expected = hashes(decoder(str(films / "film.mp4")))
    assert len(expected) == SECONDS * PICTURES_PER_SECOND
    log = films / "sessions.log"
    with streaming(films, "--access-log", str(log)) as server:
        url = server.url("film.mp4")
        whole = {way: decoder(url, "-rtsp_transport", way) for way in ("udp", "tcp")}
        part = decoder(url, "-rtsp_transport", "tcp", "-noaccurate_seek", "-ss", "2.5")
        for way, decoding in whole.items():
            assert hashes(decoding) == expected, way
        seen = hashes(part)
        # It begins at a picture that stands alone, which is there at 2 s, and goes on to the end.
        assert seen == expected[2 * PICTURES_PER_SECOND :]
        server.wait_for("sessions_ended", 3)
        counters = server.counters()
        assert counters["frames_dropped"] == counters["frames_unreadable"] == 0
    lines = log.read_text().splitlines()
    assert len(lines) == 3
    assert all(re.search(r'" 200 \d+ "-" "Lavf.*transport=(udp|tcp) .*end=teardown$', line) for line in lines), lines


def parcels(source: str, *options: str) -> subprocess.Popen[str]:
    """Takes a source as it is; what it prints has a line with a check sum for each sample."""
    command = ["ffmpeg", "-nostdin", "-v", "error", *options, "-i", source, "-map", "0", "-c", "copy"]
    return subprocess.Popen([*command, "-f", "framecrc", "-"], stdout=subprocess.PIPE, text=True)


def sums(taking: subprocess.Popen[str], stream: int) -> list[str]:
    output, _ = taking.communicate(timeout=TIMEOUT_SECONDS)
    lines = [line.replace(" ", "").split(",") for line in output.splitlines() if not line.startswith("#")]
    return [fields[5] for fields in lines if fields[0] == str(stream)]


def test_h265_and_the_end_of_the_sound_by_ipv6(films: Path) -> None:
    expected = hashes(decoder(str(films / "newer.mp4")))
    sounds = sums(parcels(str(films / "newer.mp4")), 1)
    with streaming(films, listen="[::1]:0") as server:
        url = server.url("newer.mp4")
        whole = [decoder(url, "-rtsp_transport", way) for way in ("udp", "tcp")]
        seek = ("-noaccurate_seek", "-ss", "2.5")
        parts = [decoder(url, "-rtsp_transport", way, *seek) for way in ("udp", "tcp")]
        heard = [parcels(url, "-rtsp_transport", way) for way in ("udp", "tcp")]
        assert [hashes(decoding) for decoding in whole] == [expected] * 2
        assert [hashes(decoding) for decoding in parts] == [expected[2 * PICTURES_PER_SECOND :]] * 2
        # The first is before the film's beginning, by its edit list; the last have come before the goodbye.
        assert [sums(taking, 1) for taking in heard] == [sounds[1:]] * 2


@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
def test_a_pipeline_sees_the_end_of_both_tracks(films: Path) -> None:
    with streaming(films) as server:
        source = ["rtspsrc", f"location={server.url('film.mp4')}", "protocols=udp", "name=source"]
        sinks = [
            ["source.", "!", f"application/x-rtp,media={media}", "!", "queue", "!", "fakesink"]
            for media in ("video", "audio")
        ]
        command = ["gst-launch-1.0", "-m", *source, *sinks[0], *sinks[1]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr
        assert "Got EOS" in done.stdout, done.stdout


def test_a_probe_knows_the_film(films: Path) -> None:
    with streaming(films) as server:
        command = ["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format", server.url("film.mp4")]
        probed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        assert probed.returncode == 0, probed.stderr
        found = json.loads(probed.stdout)
        assert [stream["codec_name"] for stream in found["streams"]] == ["h264", "aac"]
        assert abs(float(found["format"]["duration"]) - SECONDS) < 0.2


def test_who_does_not_read_loses_pictures_and_holds_up_nobody(films: Path) -> None:
    with streaming(films) as server:
        host, port = server.address.split(":")
        slow = socket.create_connection((host, int(port)), timeout=10)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = server.url("large.mp4")
        slow.sendall(f"SETUP {url} RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n".encode())
        session = re.search(rb"Session: (\w+)", slow.recv(4096))
        assert session is not None
        slow.sendall(f"PLAY {url} RTSP/1.0\r\nCSeq: 2\r\nSession: {session[1].decode()}\r\n\r\n".encode())
        quick = decoder(server.url("film.mp4"), "-rtsp_transport", "tcp")
        server.wait_for("frames_dropped", 1)
        assert len(hashes(quick)) == SECONDS * PICTURES_PER_SECOND
        slow.close()
        server.wait_for("sessions_ended", 2)


def test_users_play_and_others_do_not(films: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    secret = hashlib.md5(b"ann:films:two words").hexdigest()
    users.write_text(f"ann:films:{secret}\nann:films:{hashlib.sha256(b'ann:films:two words').hexdigest()}\n")
    log = tmp_path / "log"
    with streaming(films, "--users", str(users), "--access-log", str(log)) as server:
        known = f"rtsp://ann:two%20words@{server.address}/film.mp4"
        quick = [str(SOJOURN), "load", known, "--clients", "2", "--duration", "1s", "--format", "json"]
        load = subprocess.Popen(quick, stdout=subprocess.PIPE, text=True)
        playing = [decoder(known, "-rtsp_transport", way) for way in ("udp", "tcp")]
        pipeline = ["gst-launch-1.0", "-m", "rtspsrc", f"location={server.url('film.mp4')}", "user-id=ann"]
        pipeline += ["user-pw=two words", "!", "fakesink", "num-buffers=1"]
        if shutil.which(pipeline[0]) is not None:
            done = subprocess.run(pipeline, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
            assert done.returncode == 0, done.stderr
        refused = decoder(server.url("film.mp4"))
        _, errors = refused.communicate(timeout=TIMEOUT_SECONDS)
        assert refused.returncode != 0
        assert "401" in errors, errors
        assert [len(hashes(decoding)) for decoding in playing] == [SECONDS * PICTURES_PER_SECOND] * 2
        output, _ = load.communicate(timeout=TIMEOUT_SECONDS)
        assert json.loads(output)["streaming"]["streams"]["refused"] == 0, output
        assert server.counters()["authentication_failures"] == 0
    assert all(" - ann [" in line for line in log.read_text().splitlines())
    users.write_text("nonsense")
    command = [str(SOJOURN), "stream", str(films), "--users", str(users)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 2
    assert "line 1" in done.stderr


def test_a_signal_ends_sessions_and_prints_the_counters(films: Path) -> None:
    with streaming(films, "--format", "json") as server:
        decoding = decoder(server.url("film.mp4"), "-rtsp_transport", "tcp")
        server.wait_for("packets_sent", 1)
        server.process.send_signal(signal.SIGTERM)
        output, _ = server.process.communicate(timeout=TIMEOUT_SECONDS)
        decoding.communicate(timeout=TIMEOUT_SECONDS)
        counters = json.loads(output)
        assert counters["sessions_begun"] == counters["sessions_ended"] == 1
        assert counters["send_lateness_seconds"]["count"] >= counters["iteration_cpu_seconds"]["count"] > 0
        assert server.process.returncode == 0


def test_a_successor_takes_over_while_films_play_on(films: Path) -> None:
    with streaming(films) as server:
        assert server.process.stderr is not None
        playing = [decoder(server.url("film.mp4"), "-rtsp_transport", way) for way in ("udp", "tcp")]
        server.wait_for("sessions_playing", 2)
        server.process.send_signal(signal.SIGHUP)
        said = ""
        while not (taken := re.search(r"process (\d+) has taken over", said)):
            line = server.process.stderr.readline()
            assert line, said
            said += line
        try:
            # The successor has no session yet; its films are seen at once.
            server.wait_for("sessions_begun", 0, most=0)
            assert hashes(decoder(server.url("film.mp4"), "-rtsp_transport", "tcp", "-ss", "4"))
            assert [len(hashes(decoding)) for decoding in playing] == [SECONDS * PICTURES_PER_SECOND] * 2
            assert server.process.wait(timeout=TIMEOUT_SECONDS) == 0
        finally:
            os.kill(int(taken[1]), signal.SIGTERM)


SFTP_SERVER = "/usr/lib/openssh/sftp-server"


@pytest.mark.skipif(
    not all(map(shutil.which, ("sshfs", "fusermount3", SFTP_SERVER))) or not os.access("/dev/fuse", os.W_OK),
    reason="no folder can be mounted by SFTP",
)
def test_a_film_of_a_mount_that_hangs_is_refused_and_others_play_on(films: Path, tmp_path: Path) -> None:
    with mounted_by_sftp(films, tmp_path) as sftp, streaming(tmp_path, "--open-timeout", "1s") as server:
        playing = decoder(server.url("film.mp4"), "-rtsp_transport", "tcp")
        server.wait_for("sessions_playing", 1)
        sftp.send_signal(signal.SIGSTOP)
        try:
            _, errors = (refused := decoder(server.url("newer.mp4"))).communicate(timeout=TIMEOUT_SECONDS)
        finally:
            sftp.send_signal(signal.SIGCONT)
        assert refused.returncode != 0
        assert "5XX" in errors, errors
        assert len(hashes(playing)) == SECONDS * PICTURES_PER_SECOND
        assert len(hashes(decoder(server.url("newer.mp4")))) == SECONDS * PICTURES_PER_SECOND
        counters = server.counters()
        assert counters["limit_hits_open_timeout"] >= 1
        assert counters["frames_unreadable"] == counters["frames_dropped"] == 0


@contextlib.contextmanager
def mounted_by_sftp(source: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Mounts `source` at `folder`; yields the server behind it, to which it is connected by pipes."""
    command = ["sshfs", "-f", "-o", "passive,ro,kernel_cache", f":{source}", str(folder)]
    with subprocess.Popen([SFTP_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sftp:
        mounting = subprocess.Popen(command, stdin=sftp.stdout, stdout=sftp.stdin)
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not folder.is_mount():
                assert time.monotonic() < deadline, f"{folder} is not mounted"
                assert mounting.poll() is None, "sshfs has ended"
                time.sleep(0.05)
            yield sftp
        finally:
            subprocess.run(["fusermount3", "-u", "-q", str(folder)], check=False)
            mounting.terminate()
            mounting.wait(timeout=TIMEOUT_SECONDS)
            sftp.kill()


def test_what_cannot_run_is_said(tmp_path: Path) -> None:
    command = [str(SOJOURN), "stream", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 2
    assert "hint:" in done.stderr
