//! See `sst::fuzz::properties`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::properties(data, Checksums::Verified);
    sst::fuzz::properties(data, Checksums::Ignored);
});
