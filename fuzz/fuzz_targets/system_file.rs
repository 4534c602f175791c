//! See `system_file` in `src/queueing.rs`.
#![no_main]

#[path = "../src/queueing.rs"]
mod queueing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| queueing::system_file(bytes));
