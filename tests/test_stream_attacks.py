"""`sojourn stream` under attack: half-open sessions, forged datagrams, storms of requests, films that vanish."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming_server import (
    PICTURES_PER_SECOND,
    SECONDS,
    TIMEOUT_SECONDS,
    Streaming,
    decoder,
    hashes,
    make_large_film,
    make_short_film,
    streaming,
)

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")

PICTURES = SECONDS * PICTURES_PER_SECOND


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    make_short_film(folder / "film.mp4")
    return folder


class Talk:
    """A connection on which a test says what it likes."""

    def __init__(self, server: Streaming, source: str = "127.0.0.1") -> None:
        self.server = server
        host, port = server.address.split(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS, source_address=(source, 0))
        self.file = self.socket.makefile("rb")
        self.sequence = 0

    def say(self, method: str, name: str, fields: str = "") -> None:
        self.sequence += 1
        self.socket.sendall(
            f"{method} {self.server.url(name)} RTSP/1.0\r\nCSeq: {self.sequence}\r\n{fields}\r\n".encode()
        )

    def answer(self) -> tuple[int, str]:
        """The next answer's status and text; packets before it are passed over."""
        while (first := self.file.read(1)) == b"$":
            _, length = struct.unpack("!BH", self.file.read(3))
            self.file.read(length)
        head = first
        while not head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            assert line, head
            head += line
        if length := re.search(rb"Content-Length: (\d+)", head):
            head += self.file.read(int(length[1]))
        return int(head.split()[1]), head.decode()

    def ask(self, method: str, name: str, fields: str = "") -> tuple[int, str]:
        self.say(method, name, fields)
        return self.answer()

    def set_up(self, name: str, transport: str) -> str:
        """Returns the session's field."""
        status, head = self.ask("SETUP", f"{name}/trackID=1", f"Transport: {transport}\r\n")
        assert status == 200, head
        found = re.search(r"Session: (\w+)", head)
        assert found is not None
        return f"Session: {found[1]}\r\n"

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def players(server: Streaming) -> Iterator[None]:
    """Meanwhile somebody sees a whole film, by each way."""
    playing = [decoder(server.url("film.mp4"), "-rtsp_transport", way) for way in ("udp", "tcp")]
    server.wait_for("sessions_playing", 2)
    yield
    assert [len(hashes(decoding)) for decoding in playing] == [PICTURES] * 2
    assert server.counters()["frames_dropped"] == 0


def test_half_open_sessions_and_connections_keep_nobody_out(films: Path) -> None:
    places = ("--setups-max", "100", "--sessionless-connections-max", "100")
    with streaming(films, *places, listen="0.0.0.0:0") as server:
        server.address = server.address.replace("0.0.0.0", "127.0.0.1")
        with players(server):
            attackers = []
            for number in range(600):
                one = Talk(server, "127.0.0.1" if number % 2 else f"127.1.0.{1 + number % 200}")
                attackers.append(one)
                # Some set a session up by either way and never play, others say nothing.
                ports = f"{20000 + 2 * number}-{20001 + 2 * number}"
                if number % 3:
                    one.set_up("film.mp4", f"RTP/AVP;unicast;client_port={ports}" if number % 2 else "RTP/AVP/TCP")
            server.wait_for("limit_hits_setups_max", 200)
            server.wait_for("limit_hits_sessionless_connections_max", 100)
            # The limits are reached, and others come: from an address of their own, and from an attacker's.
            for source in ("127.9.9.9", "127.0.0.1"):
                newcomer = Talk(server, source)
                session = newcomer.set_up("film.mp4", "RTP/AVP/TCP")
                assert newcomer.ask("PLAY", "film.mp4", session)[0] == 200
                assert newcomer.ask("TEARDOWN", "film.mp4", session)[0] == 200
                newcomer.close()
            assert server.counters()["sessions_unplayed"] <= 100
            for one in attackers:
                one.close()


def test_others_play_on_under_attack(films: Path) -> None:
    expected = SECONDS * PICTURES_PER_SECOND
    with streaming(films, "--sessionless-connections-max", "200") as server:
        host, port = server.address.split(":")
        playing = [decoder(server.url("film.mp4"), "-rtsp_transport", way) for way in ("udp", "tcp")]
        server.wait_for("sessions_playing", 2)
        # More connections than may be without a session, half a request in each, then rubbish.
        attackers = [socket.create_connection((host, int(port)), timeout=10) for _ in range(800)]
        rubbish = [b"DESCRIBE rtsp", b"\x16\x03\x01\x02\x00", b"$\x09\xff\xff", b"GET / HTTP/1.1\r\n\r\n", bytes(9000)]
        for number, connection in enumerate(attackers):
            with contextlib.suppress(OSError):
                connection.sendall(rubbish[number % len(rubbish)])
        # Datagrams that are nobody's, among them a goodbye and a report for any source.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for datagram in (
                b"",
                b"\x81\xcb\x00\x01\x00\x00\x00\x01",
                b"\x80\xc9\x00\x01\x00\x00\x00\x01",
                bytes(1400),
            ):
                for offset in (0, 1):
                    for _ in range(250):
                        stranger.sendto(datagram, (host, server.datagram_port + offset))
        server.wait_for("limit_hits_sessionless_connections_max", 50)
        server.wait_for("rtcp_ignored", 1)
        assert [len(hashes(decoding)) for decoding in playing] == [expected] * 2
        for connection in attackers:
            connection.close()
        counters = server.counters()
        assert counters["frames_dropped"] == counters["sessions_timed_out"] == 0
        # And there is room for others again.
        server.wait_for("connections_open", 0, most=3)
        assert len(hashes(decoder(server.url("film.mp4"), "-rtsp_transport", "tcp", "-ss", "4"))) > 0


def test_forged_datagrams_end_nothing(films: Path) -> None:
    with streaming(films) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as media:
        media.bind(("127.0.0.1", 0))
        media.settimeout(TIMEOUT_SECONDS)
        port = media.getsockname()[1]
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reports,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        ):
            reports.bind(("127.0.0.1", 0))
            control = reports.getsockname()[1]
            # The same port of another address.
            stranger.bind(("127.0.0.2", control))
            viewer = Talk(server)
            session = viewer.set_up("film.mp4", f"RTP/AVP;unicast;client_port={port}-{control}")
            assert viewer.ask("PLAY", "film.mp4", session)[0] == 200
            source = media.recv(2000)[8:12]
            # A goodbye; a report that says that all was lost; a packet that claims to be longer than it is.
            goodbye = b"\x81\xcb\x00\x01" + source
            report = b"\x81\xc9\x00\x07" + bytes(4) + source + b"\xff\x7f\xff\xff" + bytes(16)
            for datagram in (goodbye, report, b"\x81\xcb\xff\xff" + source):
                stranger.sendto(datagram, ("127.0.0.1", server.datagram_port + 1))
            server.wait_for("rtcp_ignored", 3)
            # Also the receiver's own goodbye is no TEARDOWN: players send one when they seek.
            reports.sendto(goodbye, ("127.0.0.1", server.datagram_port + 1))
            markers = 1
            while markers < PICTURES // 2:
                markers += media.recv(2000)[1] >> 7
            assert server.counters()["packets_reported_lost"] == 0
            assert viewer.ask("TEARDOWN", "film.mp4", session)[0] == 200
            viewer.close()


def test_what_clients_say_out_of_turn(films: Path) -> None:
    with streaming(films) as server:
        # A request that comes byte by byte; then requests in one piece with data between them.
        talk = Talk(server)
        talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = f"DESCRIBE {server.url('film.mp4')} RTSP/1.0\r\nCSeq: 7\r\n\r\n".encode()
        for byte in request:
            talk.socket.sendall(bytes([byte]))
        assert "CSeq: 7" in talk.answer()[1]
        talk.socket.sendall((request + b"$\x05\x00\x03abc" + b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n") * 100)
        assert [talk.answer()[0] for _ in range(100)] == [200] * 100
        # No datagrams to ports of services, which others may have named.
        refused = [
            ("1-2", 461),
            ("1-65535", 461),
            ("0-0", 461),
            ("65535", 400),
            ("70000-70001", 400),
            ("9" * 4000, 400),
        ]
        for ports, status in [("1024-65535", 200), *refused]:
            fields = f"Transport: RTP/AVP;unicast;client_port={ports}\r\n"
            assert talk.ask("SETUP", "film.mp4/trackID=1", fields)[0] == status, ports[:20]
        session = talk.set_up("film.mp4", "RTP/AVP/TCP")
        assert talk.ask("PLAY", "film.mp4", session + "Range: npt=0-\r\n" * 60)[0] in (200, 400)
        # Data in the middle of a request, and a head that has no end, are no messages.
        for rubbish in (b"PLAY rtsp://h/film.mp4 RT$\x00\x00\x04abcdSP/1.0\r\n\r\n", b"X: y\r\n" * 10_000):
            other = Talk(server)
            with contextlib.suppress(OSError):
                other.socket.sendall(rubbish)
                assert other.answer()[0] == 400
            other.close()
        talk.close()


def test_storms_of_requests_wait_their_turn(films: Path) -> None:
    with streaming(films, "--films-max", "4") as server, players(server):
        for number in range(20):
            (films / f"copy-{number}.mp4").write_bytes((films / "film.mp4").read_bytes())
        seeking = Talk(server)
        session = seeking.set_up("film.mp4", "RTP/AVP/TCP")
        asking = [Talk(server) for _ in range(8)]
        for storm in range(300):
            seeking.say("PLAY", "film.mp4", f"{session}Range: npt={storm % SECONDS}-\r\n")
            for number, one in enumerate(asking):
                one.say("DESCRIBE", f"copy-{(storm + 3 * number) % 20}.mp4")
        # More films than are kept, looked at again and again: each is found.
        for one in asking:
            assert [one.answer()[0] for _ in range(300)] == [200] * 300
        assert [seeking.answer()[0] for _ in range(300)] == [200] * 300
        assert server.counters()["films_refused"] == 0
        assert server.counters()["films_open"] <= 4
        for one in (seeking, *asking):
            one.close()


def test_films_that_are_replaced_cut_and_taken_away(tmp_path: Path, films: Path) -> None:
    root = tmp_path / "films"
    root.mkdir()
    for name in ("replaced.mp4", "cut.mp4"):
        make_large_film(root / name)
    shutil.copy(films / "film.mp4", root)
    expected = hashes(decoder(str(root / "replaced.mp4")))
    # Nothing of them is kept beside the files.
    with streaming(root, "--body-cache", "1KiB") as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as media:
        replaced = decoder(server.url("replaced.mp4"), "-rtsp_transport", "tcp")
        server.wait_for("sessions_begun", 1)
        shutil.copy(films / "film.mp4", root / "new")
        (root / "new").rename(root / "replaced.mp4")
        media.bind(("127.0.0.1", 0))
        port = media.getsockname()[1]
        talk = Talk(server)
        session = talk.set_up("cut.mp4", f"RTP/AVP;unicast;client_port={port}-{port}")
        assert talk.ask("PLAY", "cut.mp4", f"{session}Scale: 0.25\r\n")[0] == 200
        with (root / "cut.mp4").open("r+b") as file:
            file.truncate(1000)
        server.wait_for("frames_unreadable", 1)

        # Who began with the old film sees it to its end; who comes now is shown what there is now.
        def wait_until(name: str, expected: str) -> None:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while expected not in talk.ask("DESCRIBE", name)[1]:
                assert time.monotonic() < deadline, name
                time.sleep(0.1)

        wait_until("replaced.mp4", "m=audio")
        wait_until("cut.mp4", " 415 ")
        assert hashes(replaced) == expected
        shutil.rmtree(root)
        wait_until("film.mp4", " 404 ")
        assert talk.ask("TEARDOWN", "cut.mp4", session)[0] == 200
        talk.close()
