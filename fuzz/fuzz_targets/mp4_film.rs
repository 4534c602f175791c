//! See `film` in `src/films.rs`.
#![no_main]

#[path = "../src/films.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod films;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| films::film(bytes));
