//! Checks requirements of RFC 9113 and RFC 7541 case by case: raw frames, and the error that must follow.

use std::io::{Read, Write};
use std::net::TcpStream;

use sojourn_testing::client::with_deadline;
use sojourn_testing::fixture;

use crate::engine::Server;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const WHOLE: u8 = END_STREAM | END_HEADERS;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;

/// The error codes of RFC 9113, section 7.
const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE: u32 = 6;
const COMPRESSION: u32 = 9;
const CALM: u32 = 11;

/// The last PING of each case, sent after the previous response, when the outcome is certain.
const LAST: &[u8; 8] = b"the last";
const BUT_ONE: &[u8; 8] = b"but one!";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The connection continues, and these streams got these statuses.
    Answered(Vec<(u32, u16)>),
    /// This stream is reset with this code, and the connection continues.
    Stream(u32, u32),
    Connection(u32),
}
use Outcome::{Answered, Connection, Stream};

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A literal without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127);
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    bytes
}

pub(super) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/hello.txt"), (":authority", "h")];

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &fields(&GET))
}

/// A request with a body to follow.
fn open(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &fields(&GET))
}

/// A request whose response exceeds the window.
fn slow(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &fields(&[GET[0], GET[1], (":path", "/large.bin"), GET[3]]))
}

fn with(more: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &fields(&[&GET[..], more].concat()))
}

fn of(list: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &fields(list))
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn settings(name: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &setting(name, value))
}

fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn block(bytes: &[u8]) -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &[&[0x82, 0x86, 0x84, 0x41, 1, b'h'], bytes].concat())
}

fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

pub(super) fn answered(streams: &[u32]) -> Outcome {
    Answered(streams.iter().map(|stream| (*stream, 200)).collect())
}

/// Everything after the preface and the client's SETTINGS.
#[rustfmt::skip]
fn cases() -> Vec<(&'static str, Vec<u8>, Outcome)> {
    let trailers = |flags, list: &[(&str, &str)]| join(&[open(1), frame(HEADERS, flags, 1, &fields(list))]);
    let malformed = |more: &[(&str, &str)]| with(more);
    let mut cases = vec![
        ("a request", get(1), answered(&[1])),
        ("two requests", join(&[get(1), get(3)]), answered(&[1, 3])),
        ("a skipped identifier", join(&[get(1), get(7)]), answered(&[1, 7])),
        ("the reserved bit of an identifier", frame(HEADERS, WHOLE, 1 | 1 << 31, &fields(&GET)), answered(&[1])),
        ("a body", join(&[open(1), frame(DATA, END_STREAM, 1, b"x")]), answered(&[1])),
        ("a padded body", join(&[open(1), frame(DATA, END_STREAM | PADDED, 1, b"\x02xyz")]), answered(&[1])),
        ("an empty body", join(&[open(1), frame(DATA, END_STREAM, 1, b"")]), answered(&[1])),
        ("padded and with priority", frame(HEADERS, WHOLE | PADDED | HAS_PRIORITY, 1, &[&b"\x02\0\0\0\0\x10"[..], &fields(&GET), &[0, 0]].concat()), answered(&[1])),
        ("padding that is all", frame(HEADERS, WHOLE | PADDED, 1, &[&[0][..], &fields(&GET)].concat()), answered(&[1])),
        ("trailers", trailers(WHOLE, &[("x", "y")]), answered(&[1])),
        ("a body and trailers", join(&[open(1), frame(DATA, 0, 1, b"x"), frame(HEADERS, WHOLE, 1, &field("x", "y"))]), answered(&[1])),
        ("a block in three frames", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET[..2])), frame(CONTINUATION, 0, 1, b""), frame(CONTINUATION, END_HEADERS, 1, &fields(&GET[2..]))]), answered(&[1])),
        ("a block cut within a field", { let all = fields(&GET); join(&[frame(HEADERS, END_STREAM, 1, &all[..9]), frame(CONTINUATION, END_HEADERS, 1, &all[9..])]) }, answered(&[1])),
        // RFC 9113, 4.1 and 5.5.
        ("an unknown frame", join(&[frame(0x16, 0xff, 0, b"xyz"), get(1)]), answered(&[1])),
        ("an unknown frame of an idle stream", join(&[frame(0xff, 0, 9, b"xyz"), get(1)]), answered(&[1])),
        ("an unknown frame of an open stream", join(&[open(1), frame(0x20, 0, 1, b"x"), frame(DATA, END_STREAM, 1, b"")]), answered(&[1])),
        ("PRIORITY_UPDATE", join(&[frame(0x10, 0, 0, b"\0\0\0\x01u=1"), get(1)]), answered(&[1])),
        ("an unknown setting", join(&[settings(0x99, 5), get(1)]), answered(&[1])),
        ("unknown flags", frame(HEADERS, WHOLE | 0xd2, 1, &fields(&GET)), answered(&[1])),
        ("a frame within a block", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(PING, 0, 0, &[0; 8])]), Connection(PROTOCOL)),
        ("an unknown frame within a block", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(0x16, 0, 1, b"")]), Connection(PROTOCOL)),
        ("DATA within a block", join(&[frame(HEADERS, 0, 1, &fields(&GET)), frame(DATA, 0, 1, b"")]), Connection(PROTOCOL)),
        ("HEADERS within a block", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), get(3)]), Connection(PROTOCOL)),
        ("CONTINUATION of another stream", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(CONTINUATION, END_HEADERS, 3, b"")]), Connection(PROTOCOL)),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, b""), Connection(PROTOCOL)),
        ("CONTINUATION behind a whole block", join(&[slow(1), frame(CONTINUATION, END_HEADERS, 1, b"")]), Connection(PROTOCOL)),
        ("CONTINUATION of the connection", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(CONTINUATION, END_HEADERS, 0, b"")]), Connection(PROTOCOL)),
        ("frames without end in a block", join(&[frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(CONTINUATION, 0, 1, b"").repeat(100)]), Connection(CALM)),
        // RFC 9113, 4.2.
        ("a frame too large", frame(DATA, 0, 1, &[0; 16385]), Connection(FRAME_SIZE)),
        ("HEADERS too large", frame(HEADERS, WHOLE, 1, &[0; 16385]), Connection(FRAME_SIZE)),
        ("an unknown frame too large", frame(0x50, 0, 0, &[0; 20000]), Connection(FRAME_SIZE)),
        ("padding without its length", frame(HEADERS, WHOLE | PADDED, 1, b""), Connection(FRAME_SIZE)),
        ("priority without room", frame(HEADERS, WHOLE | HAS_PRIORITY, 1, b"\0\0\0"), Connection(FRAME_SIZE)),
        ("DATA that has no length of padding", join(&[open(1), frame(DATA, PADDED, 1, b"")]), Connection(FRAME_SIZE)),
        // RFC 9113, 4.3.
        ("index 0", block(&[0x80]), Connection(COMPRESSION)),
        ("an index beyond the tables", block(&[0xff, 0x20]), Connection(COMPRESSION)),
        ("a name beyond the tables", block(&[0x7f, 0x20, 1, b'a']), Connection(COMPRESSION)),
        ("an integer without end", block(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Connection(COMPRESSION)),
        ("a string beyond the block", block(&[0, 9, b'a']), Connection(COMPRESSION)),
        ("half a field", block(&[0, 1, b'a']), Connection(COMPRESSION)),
        ("EOS within a string", block(&[0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, b'a']), Connection(COMPRESSION)),
        ("padding of more than seven bits", block(&[0, 1, b'a', 0x82, 0x1f, 0xff]), Connection(COMPRESSION)),
        ("padding that is no EOS", block(&[0, 1, b'a', 0x81, 0x18]), Connection(COMPRESSION)),
        ("a table larger than allowed", frame(HEADERS, WHOLE, 1, &[0x3f, 0xe2, 0x1f, 0x82, 0x86, 0x84, 0x41, 1, b'h']), Connection(COMPRESSION)),
        ("a table resized behind a field", frame(HEADERS, WHOLE, 1, &[0x82, 0x20, 0x86, 0x84, 0x41, 1, b'h']), Connection(COMPRESSION)),
        ("a table resized", frame(HEADERS, WHOLE, 1, &[0x20, 0x3f, 0xe1, 0x1f, 0x82, 0x86, 0x84, 0x41, 1, b'h']), answered(&[1])),
        ("the table is used", join(&[frame(HEADERS, WHOLE, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h']), frame(HEADERS, WHOLE, 3, &[0x82, 0x86, 0x84, 0xbe])]), answered(&[1, 3])),
        ("a block that ends in nothing", join(&[frame(HEADERS, WHOLE, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h', 0x40, 1, b'a', 1, b'b']), frame(HEADERS, WHOLE, 3, &[0x82, 0x86, 0x84, 0xbf, 0xbe])]), answered(&[1, 3])),
        ("a bad block in trailers", join(&[open(1), frame(HEADERS, WHOLE, 1, &[0x80])]), Connection(COMPRESSION)),
        ("a bad block of a stream that ended", join(&[slow(1), frame(HEADERS, WHOLE, 1, &[0x80])]), Connection(COMPRESSION)),
        // The table belongs to the connection, so a malformed request must not damage it.
        ("the table behind a malformed request", join(&[frame(HEADERS, WHOLE, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h', 0x40, 1, b'A', 1, b'b']), frame(HEADERS, WHOLE, 3, &[0x82, 0x86, 0x84, 0xbf])]), Stream(1, PROTOCOL)),
        // RFC 9113, 5.1.
        ("DATA of an idle stream", frame(DATA, END_STREAM, 1, b"x"), Connection(PROTOCOL)),
        ("RST_STREAM of an idle stream", frame(RST_STREAM, 0, 1, &[0; 4]), Connection(PROTOCOL)),
        ("WINDOW_UPDATE of an idle stream", window(1, 5), Connection(PROTOCOL)),
        ("PRIORITY of an idle stream", join(&[frame(PRIORITY, 0, 5, b"\0\0\0\x01\x10"), get(1)]), answered(&[1])),
        ("DATA behind the end", join(&[slow(1), frame(DATA, 0, 1, b"x")]), Stream(1, STREAM_CLOSED)),
        ("empty DATA behind the end", join(&[slow(1), frame(DATA, END_STREAM, 1, b"")]), Stream(1, STREAM_CLOSED)),
        ("HEADERS behind the end", join(&[slow(1), frame(HEADERS, WHOLE, 1, &field("x", "y"))]), Stream(1, STREAM_CLOSED)),
        ("DATA twice behind the end", join(&[slow(1), frame(DATA, 0, 1, b"x"), frame(DATA, 0, 1, b"x")]), Stream(1, STREAM_CLOSED)),
        ("DATA behind trailers", join(&[frame(HEADERS, END_HEADERS, 1, &fields(&[GET[0], GET[1], (":path", "/large.bin"), GET[3]])), frame(HEADERS, WHOLE, 1, &field("x", "y")), frame(DATA, 0, 1, b"x")]), Stream(1, STREAM_CLOSED)),
        ("another stream goes on meanwhile", join(&[slow(1), frame(DATA, 0, 1, b"x"), get(3)]), Stream(1, STREAM_CLOSED)),
        ("WINDOW_UPDATE behind the end", join(&[slow(1), window(1, 5)]), answered(&[1])),
        ("PRIORITY behind the end", join(&[slow(1), frame(PRIORITY, 0, 1, b"\0\0\0\0\x10")]), answered(&[1])),
        ("RST_STREAM behind the end", join(&[slow(1), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), get(3)]), answered(&[3])),
        ("DATA behind RST_STREAM", join(&[open(1), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), frame(DATA, 0, 1, b"x")]), Connection(STREAM_CLOSED)),
        ("HEADERS behind RST_STREAM", join(&[open(1), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), frame(HEADERS, WHOLE, 1, &field("x", "y"))]), Connection(STREAM_CLOSED)),
        ("RST_STREAM twice", join(&[open(1), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]).repeat(2), get(3)]), answered(&[3])),
        // RFC 9113, 5.1.1.
        ("an even identifier", get(2), Connection(PROTOCOL)),
        ("an identifier that descends", join(&[get(5), get(3)]), Connection(PROTOCOL)),
        ("a request of the connection", get(0), Connection(PROTOCOL)),
        // RFC 9113, 6.1.
        ("DATA of the connection", frame(DATA, 0, 0, b"x"), Connection(PROTOCOL)),
        ("more padding than DATA", join(&[open(1), frame(DATA, PADDED, 1, b"\x05xyz")]), Connection(PROTOCOL)),
        ("as much padding as DATA", join(&[open(1), frame(DATA, PADDED, 1, b"\x04xyz")]), Connection(PROTOCOL)),
        ("more padding than HEADERS", frame(HEADERS, WHOLE | PADDED, 1, &[&[200][..], &fields(&GET)].concat()), Connection(PROTOCOL)),
        ("padding over the priority", frame(HEADERS, WHOLE | PADDED | HAS_PRIORITY, 1, b"\x04\0\0\0\0\x10"), Connection(PROTOCOL)),
        // RFC 9113, 6.3.
        ("PRIORITY of the connection", frame(PRIORITY, 0, 0, b"\0\0\0\x01\x10"), Connection(PROTOCOL)),
        ("PRIORITY of 4", join(&[slow(1), frame(PRIORITY, 0, 1, &[0; 4])]), Stream(1, FRAME_SIZE)),
        ("PRIORITY of 6", join(&[slow(1), frame(PRIORITY, 0, 1, &[0; 6])]), Stream(1, FRAME_SIZE)),
        ("PRIORITY of 4 of an idle stream", frame(PRIORITY, 0, 1, &[0; 4]), Connection(FRAME_SIZE)),
        ("a stream that depends on itself", frame(HEADERS, WHOLE | HAS_PRIORITY, 1, &[&b"\0\0\0\x01\x10"[..], &fields(&GET)].concat()), Stream(1, PROTOCOL)),
        // RFC 9113, 6.4.
        ("RST_STREAM of the connection", frame(RST_STREAM, 0, 0, &[0; 4]), Connection(PROTOCOL)),
        ("RST_STREAM of 3", join(&[slow(1), frame(RST_STREAM, 0, 1, &[0; 3])]), Connection(FRAME_SIZE)),
        ("RST_STREAM of 5", join(&[slow(1), frame(RST_STREAM, 0, 1, &[0; 5])]), Connection(FRAME_SIZE)),
        ("RST_STREAM with an unknown code", join(&[slow(1), frame(RST_STREAM, 0, 1, &[9; 4]), get(3)]), answered(&[3])),
        // RFC 9113, 6.5.
        ("SETTINGS of a stream", frame(SETTINGS, 0, 1, b""), Connection(PROTOCOL)),
        ("SETTINGS of 5", frame(SETTINGS, 0, 0, &[0; 5]), Connection(FRAME_SIZE)),
        ("SETTINGS of 7", frame(SETTINGS, 0, 0, &[0; 7]), Connection(FRAME_SIZE)),
        ("ACK with a payload", frame(SETTINGS, ACK, 0, &setting(1, 1)), Connection(FRAME_SIZE)),
        ("ACK with a byte", frame(SETTINGS, ACK, 0, &[0]), Connection(FRAME_SIZE)),
        ("ENABLE_PUSH 2", settings(2, 2), Connection(PROTOCOL)),
        ("ENABLE_PUSH 1", join(&[settings(2, 1), get(1)]), answered(&[1])),
        ("INITIAL_WINDOW_SIZE 2^31", settings(4, 1 << 31), Connection(FLOW_CONTROL)),
        ("INITIAL_WINDOW_SIZE 2^32 - 1", settings(4, u32::MAX), Connection(FLOW_CONTROL)),
        ("INITIAL_WINDOW_SIZE 2^31 - 1", join(&[settings(4, (1 << 31) - 1), get(1)]), answered(&[1])),
        ("MAX_FRAME_SIZE 2^14 - 1", settings(5, (1 << 14) - 1), Connection(PROTOCOL)),
        ("MAX_FRAME_SIZE 2^24", settings(5, 1 << 24), Connection(PROTOCOL)),
        ("MAX_FRAME_SIZE 2^24 - 1", join(&[settings(5, (1 << 24) - 1), get(1)]), answered(&[1])),
        ("HEADER_TABLE_SIZE 0", join(&[settings(1, 0), get(1)]), answered(&[1])),
        ("MAX_CONCURRENT_STREAMS 0", join(&[settings(3, 0), get(1)]), answered(&[1])),
        ("ENABLE_CONNECT_PROTOCOL 2", settings(8, 2), Connection(PROTOCOL)),
        ("a second setting counts", join(&[frame(SETTINGS, 0, 0, &[setting(4, 1 << 20), setting(4, 1 << 31)].concat())]), Connection(FLOW_CONTROL)),
        // RFC 9113, 6.6.
        ("PUSH_PROMISE", join(&[open(1), frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2][..], &fields(&GET)].concat())]), Connection(PROTOCOL)),
        ("PUSH_PROMISE of the connection", frame(PUSH_PROMISE, END_HEADERS, 0, &[0, 0, 0, 2]), Connection(PROTOCOL)),
        // RFC 9113, 6.7.
        ("PING of a stream", frame(PING, 0, 1, &[0; 8]), Connection(PROTOCOL)),
        ("PING of 7", frame(PING, 0, 0, &[0; 7]), Connection(FRAME_SIZE)),
        ("PING of 9", frame(PING, 0, 0, &[0; 9]), Connection(FRAME_SIZE)),
        ("an answer to no PING", join(&[frame(PING, ACK, 0, &[0; 8]), get(1)]), answered(&[1])),
        // RFC 9113, 6.8.
        ("GOAWAY of a stream", frame(GOAWAY, 0, 1, &[0; 8]), Connection(PROTOCOL)),
        ("GOAWAY of 0", frame(GOAWAY, 0, 0, b""), Connection(FRAME_SIZE)),
        ("GOAWAY of 7", frame(GOAWAY, 0, 0, &[0; 7]), Connection(FRAME_SIZE)),
        // RFC 9113, 6.9.
        ("WINDOW_UPDATE of 3", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Connection(FRAME_SIZE)),
        ("WINDOW_UPDATE of 5", frame(WINDOW_UPDATE, 0, 0, &[0; 5]), Connection(FRAME_SIZE)),
        ("no more window for the connection", window(0, 0), Connection(PROTOCOL)),
        ("no more window for a stream", join(&[slow(1), window(1, 0)]), Stream(1, PROTOCOL)),
        ("too much window for the connection", join(&[window(0, (1 << 31) - 1)]), Connection(FLOW_CONTROL)),
        ("too much window for a stream", join(&[slow(1), window(1, (1 << 31) - 1)]), Stream(1, FLOW_CONTROL)),
        ("a setting that overflows a window", join(&[slow(1), window(1, (1 << 30) + (1 << 29)), settings(4, (1 << 31) - 1)]), Connection(FLOW_CONTROL)),
        ("the reserved bit of an increment", join(&[window(0, 5 | 1 << 31), get(1)]), answered(&[1])),
        // RFC 9113, 8.1.
        ("trailers that do not end", trailers(END_HEADERS, &[("x", "y")]), Stream(1, PROTOCOL)),
        ("a pseudo-field in trailers", trailers(WHOLE, &[(":path", "/")]), Stream(1, PROTOCOL)),
        ("a capital in trailers", trailers(WHOLE, &[("X", "y")]), Stream(1, PROTOCOL)),
        ("a field of a connection in trailers", trailers(WHOLE, &[("connection", "close")]), Stream(1, PROTOCOL)),
        ("less body than said", join(&[frame(HEADERS, END_HEADERS, 1, &fields(&[&GET[..], &[("content-length", "2")]].concat())), frame(DATA, END_STREAM, 1, b"x")]), Stream(1, PROTOCOL)),
        ("more body than said", join(&[frame(HEADERS, END_HEADERS, 1, &fields(&[&GET[..], &[("content-length", "1")]].concat())), frame(DATA, END_STREAM, 1, b"xy")]), Stream(1, PROTOCOL)),
        ("no body where one is said", malformed(&[("content-length", "1")]), Stream(1, PROTOCOL)),
        ("less body than said before trailers", join(&[frame(HEADERS, END_HEADERS, 1, &fields(&[&GET[..], &[("content-length", "2")]].concat())), frame(DATA, 0, 1, b"x"), frame(HEADERS, WHOLE, 1, &field("x", "y"))]), Stream(1, PROTOCOL)),
        ("a length of 0", with(&[("content-length", "0")]), answered(&[1])),
        // RFC 9113, 8.5.
        ("CONNECT with a path", of(&[(":method", "CONNECT"), (":authority", "h:1"), (":path", "/")]), Stream(1, PROTOCOL)),
        ("CONNECT with a scheme", of(&[(":method", "CONNECT"), (":authority", "h:1"), (":scheme", "http")]), Stream(1, PROTOCOL)),
        ("CONNECT to nowhere", of(&[(":method", "CONNECT")]), Stream(1, PROTOCOL)),
        ("CONNECT that is refused", of(&[(":method", "CONNECT"), (":authority", "h:1")]), Answered(vec![(1, 405)])),
        ("extended CONNECT that was not offered", of(&[(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]]), Stream(1, PROTOCOL)),
        ("OPTIONS *", of(&[(":method", "OPTIONS"), GET[1], (":path", "*"), GET[3]]), Answered(vec![(1, 204)])),
        ("GET *", of(&[GET[0], GET[1], (":path", "*"), GET[3]]), Stream(1, PROTOCOL)),
        // RFC 9113, 8.2.3.
        ("cookies in several fields", with(&[("cookie", "a=b"), ("cookie", "c=d")]), answered(&[1])),
        ("te: trailers", with(&[("te", "trailers")]), answered(&[1])),
        ("Host that agrees", with(&[("host", "h")]), answered(&[1])),
        ("Host instead of :authority", of(&[GET[0], GET[1], GET[2], ("host", "h")]), answered(&[1])),
        ("Host that contradicts", with(&[("host", "other")]), Answered(vec![(1, 400)])),
        ("no host at all", of(&GET[..3]), Answered(vec![(1, 400)])),
        ("an empty value", with(&[("x", "")]), answered(&[1])),
        ("blanks within a value", with(&[("x", "a \t b")]), answered(&[1])),
        ("an unknown method", of(&[(":method", "BREW"), GET[1], GET[2], GET[3]]), Answered(vec![(1, 501)])),
        ("a missing document", of(&[GET[0], GET[1], (":path", "/none"), GET[3]]), Answered(vec![(1, 404)])),
    ];
    // RFC 9113, 8.2 and 8.3: one stream alone.
    for (name, more) in [
        ("a capital in a name", &[("X-a", "b")] as &[(&str, &str)]),
        ("a blank in a name", &[("a b", "c")]),
        ("a colon in a name", &[("a:b", "c")]),
        ("no name", &[("", "c")]),
        ("a control in a name", &[("a\x01", "c")]),
        ("a byte beyond ASCII in a name", &[("\u{e9}", "c")]),
        ("NUL in a value", &[("x", "a\0b")]),
        ("LF in a value", &[("x", "a\nb")]),
        ("CR in a value", &[("x", "a\rb")]),
        ("a blank before a value", &[("x", " a")]),
        ("a blank behind a value", &[("x", "a ")]),
        ("a tab before a value", &[("x", "\ta")]),
        ("a tab behind a value", &[("x", "a\t")]),
        ("nothing but a blank", &[("x", " ")]),
        ("connection", &[("connection", "close")]),
        ("keep-alive", &[("keep-alive", "timeout=5")]),
        ("proxy-connection", &[("proxy-connection", "close")]),
        ("transfer-encoding", &[("transfer-encoding", "chunked")]),
        ("upgrade", &[("upgrade", "websocket")]),
        ("te: gzip", &[("te", "gzip")]),
        ("te: trailers, gzip", &[("te", "trailers, gzip")]),
        ("a pseudo-field of a response", &[(":status", "200")]),
        ("an unknown pseudo-field", &[(":x", "y")]),
        (":method twice", &[GET[0]]),
        (":scheme twice", &[GET[1]]),
        (":path twice", &[GET[2]]),
        (":authority twice", &[GET[3]]),
        ("a pseudo-field behind another field", &[("x", "y"), (":authority", "h")]),
        ("two lengths", &[("content-length", "0"), ("content-length", "1")]),
        ("a length that is none", &[("content-length", "x")]),
        ("a negative length", &[("content-length", "-1")]),
    ] {
        cases.push((name, malformed(more), Stream(1, PROTOCOL)));
    }
    for (name, place, value) in [
        ("no :method", 0, None),
        ("no :scheme", 1, None),
        ("no :path", 2, None),
        ("an empty :method", 0, Some("")),
        ("an empty :scheme", 1, Some("")),
        ("an empty :path", 2, Some("")),
        ("a blank in :method", 0, Some("G T")),
        ("a method that is no token", 0, Some("G(T")),
        ("a scheme that is none", 1, Some("h/p")),
        ("a path without a slash", 2, Some("hello.txt")),
        ("a fragment", 2, Some("/hello.txt#x")),
        ("a blank in :path", 2, Some("/hello .txt")),
        ("NUL in :path", 2, Some("/\0")),
        ("a blank in :authority", 3, Some("h h")),
        ("LF in :authority", 3, Some("h\nx: y")),
    ] {
        let mut list = GET.to_vec();
        match value {
            None => drop(list.remove(place)),
            Some(value) => list[place].1 = value,
        }
        cases.push((name, of(&list), Stream(1, PROTOCOL)));
    }
    cases
}

/// Sends `bytes` and returns the outcome; without errors it waits for this many responses.
pub(super) fn outcome(stream: &mut TcpStream, bytes: &[u8], answers_expected: usize) -> Outcome {
    stream.write_all(&[bytes, &frame(PING, 0, 0, BUT_ONE)].concat()).unwrap();
    let (mut received, mut answers, mut reset, mut is_judged) = (Vec::new(), Vec::new(), None, false);
    let mut chunk = [0; 65536];
    loop {
        while let Some((head, after)) = received.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = after.get(..length) else { break };
            let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            let id = u32::from_be_bytes(head[5..9].try_into().unwrap());
            match head[3] {
                GOAWAY if number(4) != 0 => return Connection(number(4)),
                RST_STREAM if number(0) != 0 => reset = reset.or(Some((id, number(0)))),
                PING if payload == BUT_ONE => stream.write_all(&frame(PING, 0, 0, LAST)).unwrap(),
                HEADERS => answers.push((id, status(payload))),
                PING if payload == LAST => is_judged = true,
                _ => {}
            }
            received.drain(..9 + length);
        }
        match reset {
            Some((id, code)) if is_judged => return Stream(id, code),
            None if is_judged && answers.len() >= answers_expected => {
                answers.sort_unstable();
                return Answered(answers);
            }
            _ => {}
        }
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => received.extend_from_slice(&chunk[..count]),
            end => panic!("neither an answer nor GOAWAY: {end:?}, {answers:?}"),
        }
    }
}

pub(super) fn connect(server: &Server) -> TcpStream {
    with_deadline(TcpStream::connect(server.address).unwrap())
}

/// The first field of a response, by the static table or as a literal with its name.
fn status(block: &[u8]) -> u16 {
    match block {
        // A resize of the table comes first.
        [0x20, rest @ ..] => status(rest),
        [0x88, ..] => 200,
        [0x89, ..] => 204,
        [0x8c, ..] => 400,
        [0x8d, ..] => 404,
        // The name's index with a value.
        [0x08 | 0x48, 3, status @ ..] => std::str::from_utf8(&status[..3]).unwrap().parse().unwrap(),
        // The same, Huffman-coded.
        [0x08 | 0x48, 0x82, 0x6c, 0x01, ..] => 501,
        other => panic!("{other:x?}"),
    }
}

#[test]
fn every_error_has_its_code() {
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &[]);
    let mut wrong = Vec::new();
    let cases = cases();
    for (name, frames, expected) in &cases {
        let answers = if let Answered(answers) = expected { answers.len() } else { 0 };
        let bytes = [PREFACE, &frame(SETTINGS, 0, 0, b""), frames].concat();
        let got = outcome(&mut connect(&server), &bytes, answers);
        if got != *expected {
            wrong.push(format!("{name}: {got:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// RFC 9113, 3.4.
#[test]
fn settings_come_first() {
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &[]);
    for first in [get(1), frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, ACK, 0, b""), window(0, 1)] {
        assert_eq!(outcome(&mut connect(&server), &[PREFACE, &first].concat(), 0), Connection(PROTOCOL));
    }
}

/// Behind a multiplexing front end, other users' requests share the connection.
#[test]
fn malformed_requests_end_the_connection_only_in_a_flood() {
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &[]);
    let flood = |rounds: u32| {
        let mut client = connect(&server);
        client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat()).unwrap();
        for round in 0..rounds {
            let ids = (0..50).map(|index| 1 + 2 * (50 * round + index));
            let malformed = ids.flat_map(|id| frame(HEADERS, WHOLE, id, &fields(&GET[..2])));
            let got = outcome(&mut client, &malformed.collect::<Vec<_>>(), 0);
            if got != Stream(1 + 100 * round, PROTOCOL) {
                return got;
            }
        }
        outcome(&mut client, &get(1 + 100 * rounds), 1)
    };
    assert_eq!(flood(3), answered(&[301]));
    assert_eq!(flood(8), Connection(CALM));
}
