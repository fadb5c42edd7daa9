//! See `sst::fuzz::index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::index(data, true);
    sst::fuzz::index(data, false);
});
