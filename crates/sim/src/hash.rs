//! Hashes that add up: an image is the xor of its lines, a state is the sum of its entries.
//!
//! Both can then be kept up to date line by line and write by write, so that telling two crash images
//! apart, or comparing a recovered state with a prefix of history, costs no walk over everything.

use std::hash::{BuildHasherDefault, Hasher};

use crate::media::LineBytes;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut w = [0; 8];
    w[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(w)
}

/// Joins a word to a hash.
#[inline]
pub(crate) fn mix(h: u64, word: u64) -> u64 {
    fold(word ^ 0xa076_1d64_78bd_642f, h ^ 0xe703_7ed1_a0b4_28db).rotate_left(29)
}

/// The share of one line in its image's hash.
#[inline]
pub fn line(index: u32, content: &LineBytes) -> u64 {
    let mut h = u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    for pair in content.chunks_exact(16) {
        h = fold(word(&pair[..8]) ^ 0xa076_1d64_78bd_642f, word(&pair[8..]) ^ h);
        h = h.rotate_left(29) ^ 0xe703_7ed1_a0b4_28db;
    }
    fold(h, 0x8ebc_6af0_9c88_c6e3)
}

/// The hash of a whole image.
pub fn image(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<64>().0.iter().enumerate().fold(0, |h, (i, l)| h ^ line(i as u32, l))
}

/// Hash of a byte string.
#[inline]
pub fn bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut h = seed ^ fold(bytes.len() as u64 ^ 0xe703_7ed1_a0b4_28db, 0xa076_1d64_78bd_642f);
    for chunk in bytes.chunks(8) {
        h = fold(h ^ word(chunk), 0x9e37_79b9_7f4a_7c15 ^ h.rotate_left(32));
    }
    fold(h ^ 0x8ebc_6af0_9c88_c6e3, 0xd6e8_feb8_6659_fd93)
}

/// The hash of a disk: the sum of its files and directories, so that of an empty disk is zero; and the sum of what is
/// in `dir` alone.
pub fn disk(disk: &ssd::Disk, dir: Option<&str>) -> (u64, u64) {
    let (mut sum, mut part) = (0u64, 0u64);
    disk.visit(&mut |path, content| {
        let name = bytes(u64::from(content.is_some()) + 1, path.as_bytes());
        let entry = bytes(name, content.unwrap_or_default());
        sum = sum.wrapping_add(entry);
        let below =
            dir.and_then(|dir| path.strip_prefix(dir)).is_some_and(|rest| rest.starts_with('/'));
        if below {
            part = part.wrapping_add(entry);
        }
    });
    (sum, part)
}

/// The share of one entry in its state's hash.
#[inline]
pub fn entry(keyspace: u8, key: &[u8], value: &[u8]) -> u64 {
    bytes(bytes(u64::from(keyspace) + 1, key), value)
}

/// Hasher for keys that are hashes already.
#[derive(Default)]
pub struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = self::bytes(self.0, bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// A set of hashes. Never iterated: its order does not matter.
pub type HashSet64 = std::collections::HashSet<u64, BuildHasherDefault<Ready>>;
/// A map from hashes. Never iterated.
pub type HashMap64<V> = std::collections::HashMap<u64, V, BuildHasherDefault<Ready>>;
