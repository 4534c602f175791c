#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sojourn_fuzz_checks::workload::parsed_piece(bytes));
