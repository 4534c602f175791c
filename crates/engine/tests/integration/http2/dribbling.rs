//! Tests of a client that opens its window byte by byte and reads only frame heads.

use std::time::{Duration, Instant};

use sojourn_server::Counter;
use sojourn_testing::fixture;

use crate::engine::{DEADLINE, Server};

const STREAMS: u32 = 20;

/// As many as a connection may have.
const STREAMS_MAX: u32 = 100;

/// What such a connection may use: file bytes read ahead, an output, and something for each stream.
const CONNECTION_BYTES_MAX: u64 = 256 * 1024;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A GET request for `path` without use of the dynamic table (RFC 7541, 6.1 and 6.2.2).
fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut fields = vec![0x82, 0x86, 0x04, path.len() as u8];
    fields.extend_from_slice(path.as_bytes());
    fields.extend_from_slice(b"\x01\x01h");
    frame(1, 0x4 | 0x1, stream, &fields)
}

/// The start of a connection whose streams may send nothing yet, with requests for a long body.
fn begin(streams: u32) -> Vec<u8> {
    let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE of 0.
    begin.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    begin.extend((0..streams).flat_map(|number| get(2 * number + 1, "/large.bin")));
    begin
}

/// Frames that allow each stream another byte.
fn one_byte_each(streams: u32) -> Vec<u8> {
    (0..streams).flat_map(|number| frame(8, 0, 2 * number + 1, &[0, 0, 0, 1])).collect()
}

#[test]
fn who_takes_a_byte_in_each_frame_is_left() {
    for architecture in ["amped", "uring", "mt"] {
        let root = fixture::site();
        let flags = ["--send-timeout", "1s", "--send-rate-min", "1000"];
        let server = Server::start(architecture, root.path(), &flags);
        let mut client = server.connect();
        client.send(&begin(STREAMS));
        let begun = Instant::now();
        // 400 bytes of bodies in a second, and ten times as many in frames.
        while server.counters().value(Counter::LimitSend) == 0 {
            assert!(begun.elapsed() < DEADLINE, "{architecture}: it takes too little, and is still there");
            client.send(&one_byte_each(STREAMS));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(begun.elapsed() > Duration::from_millis(900), "{architecture}: it has a period's time");
    }
}

#[test]
fn a_connection_of_many_streams_that_take_a_byte_each_uses_little_memory() {
    const CONNECTIONS: u64 = 16;
    for (architecture, workers) in [("amped", &[][..]), ("uring", &["--workers", "1"])] {
        let root = fixture::site();
        let server = Server::start(architecture, root.path(), workers);
        let connect = |number: u64| {
            let mut client = server.connect();
            client.send(&begin(STREAMS_MAX));
            server.wait_until(Counter::Streams, number * u64::from(STREAMS_MAX));
            client
        };
        // What all connections share, such as a pool of buffers.
        let mut clients = vec![connect(1)];
        let before = server.memory_bytes();
        clients.extend((2..CONNECTIONS + 2).map(connect));
        for _ in 0..5 {
            clients.iter_mut().for_each(|client| client.send(&one_byte_each(STREAMS_MAX)));
            std::thread::sleep(Duration::from_millis(50));
        }
        let each = server.memory_bytes().saturating_sub(before) / CONNECTIONS;
        eprintln!("{architecture}: {} KiB each", each >> 10);
        assert!(each <= CONNECTION_BYTES_MAX, "{architecture}: {each} bytes each");
    }
}
