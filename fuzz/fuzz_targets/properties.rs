//! See `sst::fuzz::properties`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::properties(data, true);
    sst::fuzz::properties(data, false);
});
