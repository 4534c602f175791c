//! See `response` in `src/proxy.rs`.
#![no_main]

#[path = "../src/proxy.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod proxy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proxy::response(bytes));
