//! See `upstream` in `src/http.rs`.
#![no_main]

#[path = "../src/http.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod http;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| http::upstream(bytes));
