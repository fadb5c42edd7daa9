//! See `sst::fuzz::index`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::index(data, Checksums::Verified);
    sst::fuzz::index(data, Checksums::Ignored);
});
