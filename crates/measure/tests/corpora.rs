//! Replays the fuzzer's corpus through the function that the fuzzer calls.

#[path = "../../../fuzz/src/corpora.rs"]
mod corpora;
#[path = "../../../fuzz/src/measure.rs"]
mod measure;

#[test]
fn interval_logs() {
    corpora::replay("interval_log", measure::interval_log);
}
