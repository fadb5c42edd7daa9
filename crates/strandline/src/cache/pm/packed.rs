//! How the bytes of a block lie in persistent memory: compressed with LZ4, if that saves an eighth. More blocks find room so, and fewer
//! lines are written and read; unpacking takes less than the file would.

use std::borrow::Cow;

use lz4_flex::block::{compress, decompress};

/// Bytes as they are stored.
pub(super) struct PackedBytes<'b> {
    pub bytes: Cow<'b, [u8]>,
    /// How many they are when unpacked; 0 if they are stored as they are.
    pub unpacked_len: u32,
}

impl<'b> PackedBytes<'b> {
    pub(super) fn of(bytes: &'b [u8]) -> PackedBytes<'b> {
        let packed = compress(bytes);
        if packed.len() <= bytes.len() / 8 * 7 {
            PackedBytes { bytes: Cow::Owned(packed), unpacked_len: bytes.len() as u32 }
        } else {
            PackedBytes { bytes: Cow::Borrowed(bytes), unpacked_len: 0 }
        }
    }

    /// What they were made of; `None` if they are not what they were.
    pub(super) fn unpack(self) -> Option<Vec<u8>> {
        match self.unpacked_len {
            0 => Some(self.bytes.into_owned()),
            len => {
                let bytes = decompress(&self.bytes, len as usize).ok()?;
                (bytes.len() == len as usize).then_some(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::random::Rng;

    use super::*;

    #[test]
    fn bytes_come_back_and_those_that_save_nothing_are_left() {
        let even = vec![7; 4096];
        let mut rng = Rng::new(1);
        let noise: Vec<u8> = (0..4096).map(|_| rng.below(256) as u8).collect();
        for (bytes, is_packed) in
            [(&even[..], true), (&noise, false), (b"short", false), (b"", false)]
        {
            let packed = PackedBytes::of(bytes);
            assert_eq!(packed.unpacked_len != 0, is_packed);
            assert!(!is_packed || packed.bytes.len() < bytes.len() / 8);
            assert_eq!(packed.unpack().as_deref(), Some(bytes));
        }
        let torn = PackedBytes { bytes: Cow::Borrowed(b"no lz4"), unpacked_len: 4096 };
        assert_eq!(torn.unpack(), None);
    }
}
