//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/queueing.rs"]
mod queueing;

use corpora::replay;

#[test]
fn system_files() {
    replay("system_file", queueing::system_file);
}
