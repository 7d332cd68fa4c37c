//! Feeds the fuzzer's bytes to `fuzzing::frames`, which says what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transpute_rudp::fuzzing::frames(bytes));
