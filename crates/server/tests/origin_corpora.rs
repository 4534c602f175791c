//! Replays the fuzzers' corpora about where a proxy goes through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/origins.rs"]
mod origins;

use corpora::replay;

#[test]
fn networks() {
    replay("proxy_network", origins::network);
}

#[test]
fn origins_of_every_spelling() {
    replay("proxy_origin", origins::origin);
}
