//! Feeds the fuzzer's bytes to `fuzzing::initial`, which says what is checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transpute_rudp::fuzzing::initial(bytes));
