//! Replays the fuzzers' corpora about the rules through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/proxy.rs"]
mod proxy;

use corpora::replay;

#[test]
fn metadata() {
    replay("proxy_metadata", proxy::metadata);
}

#[test]
fn requests() {
    replay("proxy_request", proxy::request);
}

#[test]
fn responses() {
    replay("proxy_response", proxy::response);
}
