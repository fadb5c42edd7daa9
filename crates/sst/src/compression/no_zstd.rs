//! What stands in the place of Zstandard in a build without it: it refuses, and says what to do.

use super::{Failure, REMEDY};

/// A dictionary for blocks that are refused.
pub(super) struct DecodeDictionary;

impl DecodeDictionary {
    pub(super) fn new(_bytes: &[u8]) -> Option<DecodeDictionary> {
        Some(DecodeDictionary)
    }
}

pub(super) fn decompress(
    _bytes: &[u8],
    _dictionary: Option<&DecodeDictionary>,
    _out: &mut Vec<u8>,
) -> Result<Option<usize>, Failure> {
    let what = "compression by Zstandard, which this build is without".into();
    Err(Failure::Unsupported { what, remedy: REMEDY })
}

/// There is none.
pub(super) enum Encoder {}

impl Encoder {
    pub(super) fn new(_level: i32) -> Option<Encoder> {
        None
    }

    pub(super) fn append(&mut self, _block: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
        match *self {}
    }
}
