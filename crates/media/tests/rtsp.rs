//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/rtsp.rs"]
mod rtsp;

use corpora::replay;

#[test]
fn streams() {
    replay("rtsp_stream", rtsp::stream);
}

#[test]
fn datagrams() {
    replay("rtp_datagram", rtsp::datagram);
}
