//! See `sst::fuzz::filter`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::filter(data, Checksums::Verified);
    sst::fuzz::filter(data, Checksums::Ignored);
});
