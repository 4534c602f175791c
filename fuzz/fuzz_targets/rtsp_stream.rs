//! See `stream` in `src/rtsp.rs`.
#![no_main]

#[path = "../src/rtsp.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod rtsp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rtsp::stream(bytes));
