//! Replays the fuzzers' corpora through the functions that the fuzzers call.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/workload.rs"]
mod workload;

use corpora::replay;

#[test]
fn logs() {
    replay("log_line", workload::log_line);
}

#[test]
fn log_formats() {
    replay("log_format", workload::log_format);
}

#[test]
fn trace_files() {
    replay("trace_file", workload::trace_file);
}
