//! See `trace::fuzz::trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trace::fuzz::trace(data));
