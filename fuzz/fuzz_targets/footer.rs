//! See `sst::fuzz::footer`.
#![no_main]

use sst::fuzz::Checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sst::fuzz::footer(data, Checksums::Verified);
    sst::fuzz::footer(data, Checksums::Ignored);
});
