//! See `strandline::fuzz::run_meta`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strandline::fuzz::run_meta(data));
