//! See `sst::fuzz::table`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::table(data, Checksums::Verified);
    sst::fuzz::table(data, Checksums::Ignored);
});
