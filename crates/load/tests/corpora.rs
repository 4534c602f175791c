//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/load.rs"]
mod load;

use corpora::replay;
use proptest::prelude::*;

#[test]
fn answers() {
    replay("load_response", load::reception);
}

#[test]
fn files_that_say_what_to_ask_for() {
    replay("load_plan", load::plan_file);
}

proptest! {
    #[test]
    fn answers_made_of_their_parts(parts in prop::collection::vec(0..PARTS.len(), 0..12), step in 1..9_u8) {
        let mut bytes = vec![step];
        parts.iter().for_each(|&part| bytes.extend_from_slice(PARTS[part].as_bytes()));
        load::reception(&bytes);
    }
}

/// What random bytes would hardly come upon.
const PARTS: [&str; 14] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.0 404 No\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "3;a=b\r\nabc\r\n",
    "X: y\r\n",
    "\n",
];
