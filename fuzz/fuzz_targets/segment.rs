//! See `strandline::fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strandline::fuzz::segment(data));
