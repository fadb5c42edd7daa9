//! The hash of RocksDB's filters: XXH3-64 as it was in xxHash 0.7.2, a preview. Later xxHash differs for
//! all lengths, so its crates do not fit: a filter made with them would hide keys from RocksDB.
//!
//! Written after the description in RocksDB's `util/xxph3.h` (xxHash is by Yann Collet, BSD 2-Clause).

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;

const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const STRIPE: usize = 64;
/// Stripes between two scrambles: each uses the secret from eight bytes further on.
const STRIPES: usize = (SECRET.len() - STRIPE) / 8;
/// Bytes of the secret that the rule for middle lengths counts from.
const SECRET_MIN: usize = 136;

/// The 64-bit hash of `key`, with RocksDB's own rule for the empty one.
#[inline]
pub(crate) fn hash64(key: &[u8]) -> u64 {
    match key.len() {
        0 => fold(word(&SECRET, 0), PRIME64_2),
        1..=3 => up_to_3(key),
        4..=8 => up_to_8(key),
        9..=16 => up_to_16(key),
        17..=128 => up_to_128(key),
        129..=240 => up_to_240(key),
        _ => long(key),
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u64 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(half))
}

/// Both halves of the 128-bit product, one over the other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 37).wrapping_mul(PRIME64_3);
    hash ^ hash >> 32
}

fn up_to_3(key: &[u8]) -> u64 {
    let (first, middle, last) = (key[0], key[key.len() / 2], key[key.len() - 1]);
    let combined = u32::from_le_bytes([first, middle, last, key.len() as u8]);
    avalanche((u64::from(combined) ^ half(&SECRET, 0)).wrapping_mul(PRIME64_1))
}

fn up_to_8(key: &[u8]) -> u64 {
    let both = half(key, 0) | half(key, key.len() - 4) << 32;
    let keyed = both ^ word(&SECRET, 0);
    let mixed = (keyed ^ keyed >> 51).wrapping_mul(PRIME32_1).wrapping_add(key.len() as u64);
    avalanche((mixed ^ mixed >> 47).wrapping_mul(PRIME64_2))
}

fn up_to_16(key: &[u8]) -> u64 {
    let low = word(key, 0) ^ word(&SECRET, 0);
    let high = word(key, key.len() - 8) ^ word(&SECRET, 8);
    let sum = low.wrapping_add(high).wrapping_add(fold(low, high));
    avalanche(sum.wrapping_add(key.len() as u64))
}

/// Sixteen bytes of the key from `at` under sixteen of the secret.
#[inline(always)]
fn mix16(key: &[u8], at: usize, secret_at: usize) -> u64 {
    let low = word(key, at) ^ word(&SECRET, secret_at);
    let high = word(key, at + 8) ^ word(&SECRET, secret_at + 8);
    fold(low, high)
}

fn up_to_128(key: &[u8]) -> u64 {
    let len = key.len();
    let mut sum = (len as u64).wrapping_mul(PRIME64_1);
    // Pairs from both ends, as many as the key has.
    for pair in 0..(len - 1) / 32 + 1 {
        let from_front = mix16(key, 16 * pair, 32 * pair);
        let from_back = mix16(key, len - 16 * (pair + 1), 32 * pair + 16);
        sum = sum.wrapping_add(from_front).wrapping_add(from_back);
    }
    avalanche(sum)
}

fn up_to_240(key: &[u8]) -> u64 {
    let len = key.len();
    let mut sum = (len as u64).wrapping_mul(PRIME64_1);
    for round in 0..8 {
        sum = sum.wrapping_add(mix16(key, 16 * round, 16 * round));
    }
    sum = avalanche(sum);
    for round in 8..len / 16 {
        sum = sum.wrapping_add(mix16(key, 16 * round, 16 * (round - 8) + 3));
    }
    avalanche(sum.wrapping_add(mix16(key, len - 16, SECRET_MIN - 17)))
}

fn long(key: &[u8]) -> u64 {
    let mut sums =
        [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    let blocks = key.chunks_exact(STRIPE * STRIPES);
    let rest = blocks.remainder();
    for block in blocks {
        accumulate(&mut sums, block);
        scramble(&mut sums);
    }
    accumulate(&mut sums, rest);
    if !key.len().is_multiple_of(STRIPE) {
        stripe(&mut sums, &key[key.len() - STRIPE..], SECRET.len() - STRIPE - 7);
    }
    let mut hash = (key.len() as u64).wrapping_mul(PRIME64_1);
    for pair in 0..4 {
        let low = sums[2 * pair] ^ word(&SECRET, 11 + 16 * pair);
        let high = sums[2 * pair + 1] ^ word(&SECRET, 11 + 16 * pair + 8);
        hash = hash.wrapping_add(fold(low, high));
    }
    avalanche(hash)
}

/// Whole stripes of `bytes`, each under its own part of the secret.
fn accumulate(sums: &mut [u64; 8], bytes: &[u8]) {
    for (i, bytes) in bytes.chunks_exact(STRIPE).enumerate() {
        stripe(sums, bytes, 8 * i);
    }
}

#[inline(always)]
fn stripe(sums: &mut [u64; 8], bytes: &[u8], secret_at: usize) {
    for (lane, sum) in sums.iter_mut().enumerate() {
        let value = word(bytes, 8 * lane);
        let keyed = value ^ word(&SECRET, secret_at + 8 * lane);
        let product = (keyed & 0xffff_ffff) * (keyed >> 32);
        *sum = sum.wrapping_add(value).wrapping_add(product);
    }
}

fn scramble(sums: &mut [u64; 8]) {
    for (lane, sum) in sums.iter_mut().enumerate() {
        let keyed = *sum ^ *sum >> 47 ^ word(&SECRET, SECRET.len() - STRIPE + 8 * lane);
        *sum = keyed.wrapping_mul(PRIME32_1);
    }
}
