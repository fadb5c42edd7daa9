//! See `sst::fuzz::data_block`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::data_block(data, Checksums::Verified);
    sst::fuzz::data_block(data, Checksums::Ignored);
});
