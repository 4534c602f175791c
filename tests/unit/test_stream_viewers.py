"""What viewers read of a description, and what they count of packets, whose numbers and time stamps wrap."""

from __future__ import annotations

import struct

import pytest

from sojourn.cache_misses import Counts, Measurement, Request
from sojourn.cache_misses.receiver import Received
from sojourn.cache_misses.rtsp import Track, described
from sojourn.cache_misses.viewers import Viewers
from sojourn.failure import CouldNotRun

DESCRIPTION = """v=0
s=film
a=range:npt=0-12.5
m=video 0 RTP/AVP 96
a=rtpmap:96 H264/90000
a=control:trackID=1
m=audio 0 RTP/AVP 97
a=rtpmap:97 mpeg4-generic/22050/1
a=control:rtsp://there/film/stream=1
"""


def packet(sequence: int, stamp: int) -> bytes:
    return struct.pack("!BBHII", 0x80, 96, sequence % (1 << 16), stamp % (1 << 32), 1) + b"picture"


def test_a_description_names_tracks_below_its_base_or_elsewhere() -> None:
    film = described(DESCRIPTION.replace("\n", "\r\n"), "rtsp://here/film/")
    assert film.seconds == 12.5
    assert film.tracks == [Track("rtsp://here/film/trackID=1", 90_000), Track("rtsp://there/film/stream=1", 22_050)]
    assert described(DESCRIPTION.replace("a=range", "a=x"), "rtsp://here").seconds is None
    with pytest.raises(CouldNotRun, match="no track"):
        described("v=0\n", "rtsp://here")


def test_numbers_and_stamps_wrap_and_gaps_are_lost() -> None:
    received = Received(clock=100)
    for sequence, stamp in ((65_534, 2**32 - 50), (65_535, 2**32 - 50), (65_538, 150), (65_537, 50)):
        received.take(packet(sequence, stamp))
    received.take(b"no packet")
    assert (received.packets, received.bytes, received.lost) == (4, 4 * 19, 1)
    assert received.seconds == 2.0


def test_nothing_received_is_nothing_lost_and_no_time() -> None:
    received = Received(clock=90_000)
    assert (received.packets, received.lost, received.seconds) == (0, 0, 0.0)


def measured(shorter: Counts, longer: Counts) -> Measurement:
    events = dict.fromkeys(("Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "packets", "bytes"), 0)
    request = Request(["server"], "rtsp://here", Viewers(["/film"], clients=4, seconds=5))
    return Measurement(request, "valgrind", {}, True, [events | shorter], [events | longer])


def test_figures_are_of_a_second_of_one_stream_and_of_all() -> None:
    found = measured({"Ir": 1000, "packets": 50}, {"Ir": 3000, "packets": 90})
    assert found.void is None
    assert found.per_unit is not None
    assert found.per_second is not None
    assert (found.per_unit["instructions"].mean, found.per_second["instructions"].mean) == (100, 400)
    assert found.per_unit["packets"].mean == 2


@pytest.mark.parametrize(
    ("longer", "said"),
    [
        ({"Ir": 3000, "behind": 1}, "less than the films' pace"),
        ({"Ir": 3000, "lost": 7}, "7 packets"),
        ({"Ir": 900}, "the server's start cost more"),
    ],
)
def test_figures_of_runs_that_went_wrong_are_void(longer: Counts, said: str) -> None:
    found = measured({"Ir": 1000}, longer)
    assert found.void is not None
    assert said in found.void
    assert (found.per_unit, found.per_second) == (None, None)
    assert found.as_json()["per_stream_second"] is None
