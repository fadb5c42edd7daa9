//! See `strandline::fuzz::edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strandline::fuzz::edit(data));
