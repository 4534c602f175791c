//! See `reception` in `src/load.rs`.
#![no_main]

#[path = "../src/load.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod load;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| load::reception(bytes));
