//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/http.rs"]
mod http;

use corpora::replay;

#[test]
fn requests() {
    replay("http_request", http::request);
}

#[test]
fn responses() {
    replay("http_response", http::response);
}

#[test]
fn upstream_responses() {
    replay("http_upstream", http::upstream);
}

#[test]
fn paths() {
    replay("http_path", http::path);
}

#[test]
fn ranges() {
    replay("http_range", http::range);
}

#[test]
fn streams() {
    replay("http_stream", http::stream);
}

#[test]
fn chunked_bodies() {
    replay("http_chunked", http::chunked);
}

#[test]
fn conditions() {
    replay("http_conditions", http::conditions);
}

#[test]
fn dates() {
    replay("http_date", http::date);
}
