//! See `origin` in `src/origins.rs`.
#![no_main]

#[path = "../src/origins.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod origins;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| origins::origin(bytes));
