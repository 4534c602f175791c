//! Tests of request bodies that are answered while they arrive.

use super::probe::{DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, fields, frame};
use crate::proxy::early_responses::capitals;
use crate::proxy::over_all;

/// Once the body is too long to be buffered first.
#[test]
fn a_stream_is_answered_while_it_is_sent() {
    const PART: usize = 16 * 1024;
    let post = fields(&[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "h")]);
    let begin = [
        PREFACE,
        // A window for all that is answered: SETTINGS_INITIAL_WINDOW_SIZE, and the connection's.
        &frame(SETTINGS, 0, 0, &[0, 4, 0, 0x10, 0, 0])[..],
        &frame(WINDOW_UPDATE, 0, 0, &[0, 0x10, 0, 0]),
        &frame(HEADERS, END_HEADERS, 1, &post),
    ]
    .concat();
    over_all(&[], capitals, |server, _| {
        let mut client = server.connect();
        client.send(&begin);
        for _ in 0..3 {
            client.send(&frame(DATA, 0, 1, &[b'x'; PART]));
        }
        // The server has read these, and opens its window.
        client.until(&frame(WINDOW_UPDATE, 0, 1, &[])[3..9]);
        for _ in 0..2 {
            client.send(&frame(DATA, 0, 1, &[b'x'; PART]));
        }
        client.until(b"XX");
        for line in ["one", "two", "six"] {
            client.send(&frame(DATA, 0, 1, line.as_bytes()));
            client.until(line.to_ascii_uppercase().as_bytes());
        }
        client.send(&frame(DATA, END_STREAM, 1, b""));
        client.until(&frame(DATA, END_STREAM, 1, b""));
    });
}
