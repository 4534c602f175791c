"""Our request parser beside two others, h11 and llhttp (httptools): what all accept they must read alike.

Where ours refuses what another accepts, the rule that it names must really be broken; each rule is written down here a
second time, as a predicate on the bytes. Where another refuses what ours accepts, it must be one of the liberties that
`LIBERTIES` lists. The requests are random: sound ones, and ones damaged where parsers have been known to differ.
"""

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from request_readers import Message, Ours, Outcome, read_h11, read_llhttp

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
REQUEST_LINE = re.compile(rb"(?:\r\n)?(" + TOKEN + rb"{1,64}) ([!-\"$-~]+) HTTP/1\.(\d)\r\n")
FIELD = re.compile(rb"(" + TOKEN + rb"+):([\t -~\x80-\xff]*)")
EXTENSION = (
    rb"[ \t]*;[ \t]*"
    + TOKEN
    + rb"+(?:[ \t]*=[ \t]*(?:"
    + TOKEN
    + rb'+|"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t -~\x80-\xff])*"))?'
)
CHUNK_HEAD = re.compile(rb"([0-9A-Fa-f]+)(?:" + EXTENSION + rb")*\r\n")
TRAILERS = re.compile(rb"(?:" + TOKEN + rb"+:[\t -~\x80-\xff]*\r\n)*\r\n")
HOST = re.compile(rb"(?:(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+\.?|\[[0-9A-Fa-f:.]+\])(?::\d*)?")


def head_lines(data: bytes) -> list[bytes]:
    head = data.removeprefix(b"\r\n").split(b"\r\n\r\n")[0]
    return head.split(b"\r\n")[1:]


def values(data: bytes, name: bytes) -> list[bytes]:
    pairs = (line.partition(b":") for line in head_lines(data))
    return [value.strip(b" \t") for key, _, value in pairs if key.lower() == name]


def minor_version(data: bytes) -> bytes:
    line = REQUEST_LINE.match(data)
    return line[3] if line else b"?"


def is_chunked_body(body: bytes) -> bool:
    """Whether `body` begins with a whole chunked body."""
    while head := CHUNK_HEAD.match(body):
        size = int(head[1], 16)
        body = body[head.end() :]
        if size == 0:
            return TRAILERS.match(body) is not None
        if body[size : size + 2] != b"\r\n":
            return False
        body = body[size + 2 :]
    return False


RULES = {
    # RFC 9112, 2.2
    "BareLineFeed": lambda data: re.search(rb"(?<!\r)\n", data.split(b"\r\n\r\n")[0]) is not None,
    # RFC 9112, 3
    "RequestLine": lambda data: REQUEST_LINE.match(data) is None,
    # RFC 9110, 15.6.6
    "Version": lambda data: re.match(rb"\S+ \S+ HTTP/(?!1)\d\.\d\r\n", data.removeprefix(b"\r\n")) is not None,
    # RFC 9112, 5
    "Field": lambda data: not all(FIELD.fullmatch(line) for line in head_lines(data)),
    # RFC 9112, 3.2
    "Host": lambda data: (
        len(values(data, b"host")) != 1
        or not HOST.fullmatch(values(data, b"host")[0])
        or re.search(rb"^\S+ https?://(?!" + HOST.pattern + rb"[/? ])", data.removeprefix(b"\r\n")) is not None
    ),
    # RFC 9110, 8.6; leading zeros, which some read as octal, and repetition are refused too
    "ContentLength": lambda data: (
        len(values(data, b"content-length")) > 1
        or not re.fullmatch(rb"0|[1-9]\d{0,19}", values(data, b"content-length")[0])
        or int(values(data, b"content-length")[0]) >= 1 << 64
    ),
    # RFC 9112, 6.1 and 6.3
    "Framing": lambda data: (
        values(data, b"content-length") != []
        or minor_version(data) == b"0"
        or len(values(data, b"transfer-encoding")) > 1
        or values(data, b"transfer-encoding")[0].lower() != b"chunked"
    ),
    # RFC 9112, 6.1: unknown below chunked
    "TransferCoding": lambda data: re.fullmatch(rb".+,\s*chunked", values(data, b"transfer-encoding")[0].lower()),
    # RFC 9110, 10.1.1
    "Expectation": lambda data: any(value.lower() != b"100-continue" for value in values(data, b"expect")),
    # RFC 9110, 8.3
    "ContentType": lambda data: len(values(data, b"content-type")) > 1,
    # RFC 9112, 7.1
    "Body": lambda data: not is_chunked_body(data.split(b"\r\n\r\n", 1)[1]),
}
"""Of each refusal, whether the bytes really break its rule."""

LIBERTIES = {
    # RFC 9112, 2.2: at least one empty line before a request line should be ignored.
    ("h11", "no request line received"): lambda data: data.startswith(b"\r\n"),
    # RFC 9110, 2.5: a higher minor version is to be processed as the highest one known.
    ("llhttp", "Invalid HTTP version"): lambda data: minor_version(data) in b"23456789",
    # RFC 9110, 9.1: a method nobody knows is well-formed, and answered 501.
    ("llhttp", "Invalid method encountered"): lambda data: REQUEST_LINE.match(data) is not None,
}
"""What another refuses by a message of its own and ours accepts, and the rule that allows it."""


def pieces(*texts: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from(texts)


METHODS = pieces(b"GET", b"GET", b"GET", b"POST", b"HEAD", b"OPTIONS", b"DELETE", b"get", b"G\0T", b"G(T", b"")
TARGETS = pieces(
    b"/", b"/a?b=c", b"/%41", b"/..", b"*", b"http://h/a", b"http://u@h/", b"/#a", b"/a b", b"/\xc3\xa9", b"", b"/|{}"
)
VERSIONS = pieces(
    *[b"HTTP/1.1"] * 6,
    b"HTTP/1.0",
    b"HTTP/1.2",
    b"HTTP/2.0",
    b"HTTP/0.9",
    b"HTTP/1.10",
    b"http/1.1",
    b"HTTP/1",
    b"HTTP/1.1 ",
    b"HTTP/01.1",
)
HOSTS = pieces(
    *[b"Host: h"] * 8,
    b"Host: h:80",
    b"Host: [::1]:80",
    b"host:h",
    b"Host:",
    b"Host: a b",
    b"Host: u@h",
    b"Host: h, i",
    b"Host : h",
    b"X: y",
)
LENGTHS = pieces(
    b"5",
    b"5",
    b"5",
    b"0",
    b" 5 ",
    b"05",
    b"+5",
    b"-5",
    b"0x5",
    b"5, 5",
    b"5,6",
    b"5 5",
    b"",
    b"5_",
    b"18446744073709551616",
    b"5\x0b",
)
CODINGS = pieces(
    b"chunked",
    b"chunked",
    b"chunked",
    b"Chunked",
    b" chunked ",
    b"xchunked",
    b"identity",
    b"gzip, chunked",
    b"chunked, gzip",
    b"chunked, chunked",
    b"chunked,",
    b"",
    b"\x0bchunked",
    b"chunked\0",
    b'"chunked"',
)
FIELDS = st.one_of(
    pieces(b"X: y", b"X:y", b"X:", b"Connection: close", b"Connection: keep-alive", b"Cookie: a=b; c=d", b"X: \xe9"),
    st.builds(lambda value: b"Content-Length: " + value, LENGTHS),
    st.builds(lambda value: b"Transfer-Encoding: " + value, CODINGS),
    pieces(
        b"X : y",
        b" X: y",
        b"X",
        b": y",
        b"X: a\0b",
        b"X: a\rb",
        b"X: a\x01b",
        b"X: a\r\n b",
        b"X[: y",
        b"Expect: 100-continue",
        b"Expect: more",
        b"Content-Type: a/b",
        b"Transfer_Encoding: chunked",
    ),
)
LINE_ENDS = pieces(*[b"\r\n"] * 30, b"\n", b"\r", b"\r\r\n", b"\n\r")
SIZES = pieces(
    b"5",
    b"5",
    b"5",
    b"05",
    b"5;a=b",
    b'5;a="b;c"',
    b"5 ;a",
    b"5;",
    b"5 ",
    b" 5",
    b"+5",
    b"0x5",
    b"5_",
    b"-5",
    b"5;a\rb",
    b"5;[",
    b"10000000000000005",
    b"5,",
)
CHUNKS = st.builds(
    lambda size, end, data, after: size + end + data + after,
    SIZES,
    LINE_ENDS,
    pieces(*[b"hello"] * 9, b"hell", b"hello!"),
    LINE_ENDS,
)
TRAILER_FIELDS = pieces(b"", b"", b"", b"X: y\r\n", b"X : y\r\n", b"X: y\n", b"X: a\0b\r\n", b"X: y\r\n z\r\n")
BODIES = st.one_of(
    pieces(b"", b"hello", b"hel", b"helloGET / HTTP/1.1\r\n"),
    st.builds(
        lambda chunks, last, trailer, end: b"".join(chunks) + last + trailer + end,
        st.lists(CHUNKS, max_size=2),
        pieces(b"0\r\n", b"0\r\n", b"0\r\n", b"00\r\n", b"0\n", b"0;a\r\n", b"+0\r\n"),
        TRAILER_FIELDS,
        pieces(b"\r\n", b"\r\n", b"\r\n", b"\n", b"", b"\r\nGET"),
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request, usually with a fault or two."""
    line = b" ".join([draw(METHODS), draw(TARGETS), draw(VERSIONS)])
    fields = [draw(HOSTS), *draw(st.lists(FIELDS, max_size=3))]
    head = b"".join(part + draw(LINE_ENDS) for part in [line, *draw(st.permutations(fields)), b""])
    return draw(pieces(*[b""] * 9, b"\r\n", b"\r\n\r\n", b"\n", b" ")) + head + draw(BODIES)


SOUND_FIELDS = st.one_of(
    pieces(b"X: y", b"X:y\t", b"Empty:", b"Connection: close", b"Cookie: a=b; c=d", b"X: a\tb\xe9"),
    st.binary(min_size=1, max_size=9).map(lambda value: b"Random: " + re.sub(rb"[^\t -~\x80-\xff]", b"", value)),
)


@st.composite
def sound_requests(draw: st.DrawFn) -> bytes:
    """A request that every parser has to accept."""
    content = draw(st.binary(max_size=20))
    fields = [b"Host: example.org:80", *draw(st.lists(SOUND_FIELDS, max_size=4))]
    if draw(st.booleans()):
        fields.append(b"Content-Length: %d" % len(content))
        body = content
    else:
        fields.append(b"Transfer-Encoding: chunked")
        cuts = sorted({0, len(content), *draw(st.lists(st.integers(0, len(content)), max_size=3))})
        sizes = pieces(b"%x", b"%X", b"0%x", b'%x;a=b;c="d e"')
        chunks = [content[start:end] for start, end in itertools.pairwise(cuts)]
        body = b"".join(draw(sizes) % len(chunk) + b"\r\n" + chunk + b"\r\n" for chunk in chunks)
        body += b"0\r\n" + draw(pieces(b"", b"X: y\r\n")) + b"\r\n"
    lines = [b"POST /a?%C3%A9=b HTTP/1.1", *draw(st.permutations(fields)), b"", b""]
    return b"\r\n".join(lines) + body + draw(pieces(b"", b"GET /next HTTP/1.1\r\n"))


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    parser = Ours()
    yield parser
    parser.stop()


def same(ours: Message, other: Message, data: bytes) -> bool:
    """Whether two parsers read the same; of an absolute target ours gives the path alone."""
    is_absolute = re.match(rb"(?i)https?://", other.target) is not None
    targets_agree = (
        other.target.endswith(ours.target) or ours.target == b"/" if is_absolute else ours.target == other.target
    )
    return (
        targets_agree
        and (ours.method, ours.content, ours.rest) == (other.method, other.content, other.rest)
        and ours.minor_version == min(other.minor_version, 1)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=sound_requests())
def test_sound_requests_are_read_alike(ours: Ours, data: bytes) -> None:
    read = ours.read(data)
    assert isinstance(read, Message), (read, data)
    for other in (read_h11(data), read_llhttp(data)):
        assert isinstance(other, Message), (other, data)
        assert same(read, other, data), (read, other, data)


def compare(read: Outcome, name: str, other: Outcome, data: bytes) -> None:
    match read, other:
        case Message(), Message():
            assert same(read, other, data), (name, read, other, data)
        case str(), Message() | "partial" if read != "partial":
            assert RULES[read](data), (name, read, other, data)
        case (Message(), str()) | ("partial", Message()):
            is_allowed = LIBERTIES.get((name, str(other)), lambda _: False)
            assert is_allowed(data), (name, read, other, data)
        case _:
            pass


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=requests())
def test_whatever_is_read_otherwise_has_its_rule(ours: Ours, data: bytes) -> None:
    read = ours.read(data)
    for name, read_other in (("h11", read_h11), ("llhttp", read_llhttp)):
        other = read_other(data)
        compare(read, name, other, data)
        if read == "partial" and other != "partial" and (name, other) not in LIBERTIES:
            # It gave up early; ours will not do otherwise at the end of the head or the line.
            assert not isinstance(ours.read(data + b"\r\n\r\n"), Message), (name, other, data)
