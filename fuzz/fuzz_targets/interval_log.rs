//! See `interval_log` in `src/measure.rs`.
#![no_main]

#[path = "../src/measure.rs"]
mod measure;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| measure::interval_log(bytes));
