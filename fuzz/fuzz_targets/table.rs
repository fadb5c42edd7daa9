//! See `sst::fuzz::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::table(data, true);
    sst::fuzz::table(data, false);
});
