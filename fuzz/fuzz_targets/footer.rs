//! See `sst::fuzz::footer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::footer(data, true);
    sst::fuzz::footer(data, false);
});
