//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/http.rs"]
mod http;

use std::path::Path;

fn replay(name: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{} holds only {count} inputs", corpus.display());
}

#[test]
fn requests() {
    replay("http_request", http::request);
}

#[test]
fn responses() {
    replay("http_response", http::response);
}

#[test]
fn paths() {
    replay("http_path", http::path);
}
