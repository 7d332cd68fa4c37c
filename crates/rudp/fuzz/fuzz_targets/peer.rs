//! Runs `fuzzing::peer`, whose documentation lists the checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transpute_rudp::fuzzing::peer(bytes));
