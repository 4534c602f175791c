//! See `log_format` in `src/workload.rs`.
#![no_main]

#[path = "../src/workload.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod workload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| workload::log_format(bytes));
