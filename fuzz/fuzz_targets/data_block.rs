//! See `sst::fuzz::data_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::data_block(data, true);
    sst::fuzz::data_block(data, false);
});
