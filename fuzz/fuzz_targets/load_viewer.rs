//! See `dialogue` in `src/viewer.rs`.
#![no_main]

#[path = "../src/viewer.rs"]
mod viewer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| viewer::dialogue(bytes));
