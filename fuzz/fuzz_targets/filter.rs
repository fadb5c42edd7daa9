//! See `sst::fuzz::filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::filter(data, true);
    sst::fuzz::filter(data, false);
});
