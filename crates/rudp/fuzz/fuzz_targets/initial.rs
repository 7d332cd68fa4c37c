//! Runs `fuzzing::initial`, whose documentation lists the checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transpute_rudp::fuzzing::initial(bytes));
