//! See `pool::fuzz::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pool::fuzz::superblock(data));
