//! What all engines are given: keys and values that follow from a number, so that every answer can be compared
//! with what it should be.

use std::sync::atomic::{AtomicU32, Ordering};

use bench::data::keys::{Form, Keys};
use bench::data::rng::{Rng, mix};

/// Bytes that a store reads at once, about.
pub const BLOCK: u64 = 4096;
/// Bytes of a key.
pub const KEY: usize = 16;
/// Bytes of the buffer that values are cut from.
const BUFFER: usize = 1 << 20;
/// Bytes that a buffer of [`Filling::Half`] is made of.
const PIECE: usize = 100;
/// Bytes of a value before its filling: key number, then generation.
const HEAD: usize = 12;

/// How keys look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// As db_bench makes them: dense numbers, then zeros.
    Dense,
    /// A hash of the number, then the number.
    Hashed,
}

/// How values are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filling {
    /// Pieces whose second half repeats the first: values compress to half.
    #[default]
    Half,
    /// Random bytes, which do not compress.
    Random,
}

impl Filling {
    /// All of them.
    pub const ALL: [Filling; 2] = [Filling::Half, Filling::Random];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Filling::Half => "half",
            Filling::Random => "random",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Filling> {
        Filling::ALL.into_iter().find(|filling| filling.name() == name)
    }

    /// What part of its size a value compresses to.
    pub fn ratio(self) -> f64 {
        match self {
            Filling::Half => 0.5,
            Filling::Random => 1.0,
        }
    }

    /// At least `len` bytes.
    fn bytes(self, len: usize) -> Vec<u8> {
        let (mut rng, mut bytes) = (Rng::new(301), Vec::with_capacity(len + PIECE));
        while bytes.len() < len {
            match self {
                Filling::Half => {
                    let start = bytes.len();
                    bytes.extend((0..PIECE / 2).map(|_| b' ' + rng.below(95) as u8));
                    bytes.extend_from_within(start..);
                }
                Filling::Random => bytes.extend_from_slice(&rng.next().to_le_bytes()),
            }
        }
        bytes
    }
}

/// Keys and values of one size.
#[derive(Debug)]
pub struct Data {
    spread: Spread,
    value_size: usize,
    buffer: Vec<u8>,
}

impl Data {
    /// Values of `value_size` bytes, at least 12.
    pub fn new(spread: Spread, filling: Filling, value_size: usize) -> Data {
        let value_size = value_size.max(HEAD);
        Data { spread, value_size, buffer: filling.bytes(BUFFER + value_size) }
    }

    /// Whether keys follow each other as their numbers do.
    pub fn is_dense(&self) -> bool {
        self.spread == Spread::Dense
    }

    /// Bytes of a key and its value.
    pub fn entry(&self) -> u64 {
        (KEY + self.value_size) as u64
    }

    /// Writes the key of `number`.
    #[inline]
    pub fn key(&self, number: u64, key: &mut Vec<u8>) {
        match self.spread {
            Spread::Dense => Keys { form: Form::Number, size: KEY }.write(number, key),
            Spread::Hashed => {
                key.clear();
                key.extend_from_slice(&mix(number).to_be_bytes());
                key.extend_from_slice(&number.to_be_bytes());
            }
        }
    }

    /// Writes a key that lies among the others and belongs to none.
    #[inline]
    pub fn absent_key(&self, number: u64, key: &mut Vec<u8>) {
        self.key(number, key);
        let last = if self.spread == Spread::Dense { KEY - 1 } else { 8 };
        key[last] ^= 1;
    }

    /// The number of a key.
    #[inline]
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        let number = if self.spread == Spread::Dense { key.get(..8) } else { key.get(8..) };
        number?.try_into().ok().map(u64::from_be_bytes)
    }

    /// Writes the value that `number` has in `generation`.
    #[inline]
    pub fn value(&self, number: u64, generation: u32, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&generation.to_le_bytes());
        value.extend_from_slice(self.filling(number, generation));
    }

    /// The generation of `value`, if it is one of `number`, whole.
    #[inline]
    pub fn generation(&self, number: u64, value: &[u8]) -> Option<u32> {
        let (head, filling) = value.split_at_checked(HEAD)?;
        let generation = u32::from_le_bytes(head[8..].try_into().ok()?);
        let whole =
            head[..8] == number.to_le_bytes() && filling == self.filling(number, generation);
        whole.then_some(generation)
    }

    #[inline]
    fn filling(&self, number: u64, generation: u32) -> &[u8] {
        let place = mix(number ^ u64::from(generation) << 40) as usize % BUFFER;
        &self.buffer[place..place + self.value_size - HEAD]
    }
}

/// What a store should hold: a generation per number, 0 for none.
#[derive(Debug)]
pub struct Model(Vec<AtomicU32>);

impl Model {
    /// Nothing for `count` numbers.
    pub fn new(count: u64) -> Model {
        Model((0..count).map(|_| AtomicU32::new(0)).collect())
    }

    /// How many numbers there are.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The generation of `number`; 0 for a number that is too high.
    #[inline]
    pub fn get(&self, number: u64) -> u32 {
        self.0.get(number as usize).map_or(0, |generation| generation.load(Ordering::Acquire))
    }

    /// Sets the generation of `number`, which only one thread does.
    #[inline]
    pub fn set(&self, number: u64, generation: u32) {
        self.0[number as usize].store(generation, Ordering::Release);
    }

    /// Sets the generation of `number` to the next one, whichever thread does.
    #[inline]
    pub fn advance(&self, number: u64) {
        self.0[number as usize].fetch_add(1, Ordering::AcqRel);
    }

    /// The generation that all numbers have, if it is one.
    pub fn same(&self) -> Option<u32> {
        let first = self.get(0);
        let mut all = self.0.iter().map(|generation| generation.load(Ordering::Acquire));
        all.all(|generation| generation == first).then_some(first)
    }

    /// How many numbers have a value.
    pub fn present(&self) -> u64 {
        self.0.iter().filter(|generation| generation.load(Ordering::Acquire) > 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_tell_their_number() {
        for spread in [Spread::Dense, Spread::Hashed] {
            let data = Data::new(spread, Filling::Random, 100);
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for number in [0, 1, 255, 1 << 33] {
                data.key(number, &mut key);
                assert_eq!((key.len(), data.number(&key)), (KEY, Some(number)));
                data.value(number, 3, &mut value);
                assert_eq!((value.len(), data.generation(number, &value)), (100, Some(3)));
                assert_eq!(data.generation(number + 1, &value), None);
                value[99] ^= 1;
                assert_eq!(data.generation(number, &value), None);
                let present = key.clone();
                data.absent_key(number, &mut key);
                assert_ne!(present, key);
            }
        }
    }

    #[test]
    fn values_compress_as_their_filling_says() {
        let random = Data::new(Spread::Dense, Filling::Random, 64 << 10);
        let half = Data::new(Spread::Dense, Filling::Half, 64 << 10);
        for (data, wanted) in [(half, 50..53), (random, 100..102)] {
            let (mut value, mut bytes) = (Vec::new(), 0);
            for number in 0..10 {
                data.value(number, 1, &mut value);
                bytes += compressed(&value);
            }
            let percent = bytes * 100 / (10 * value.len());
            assert!(wanted.contains(&percent), "{percent} %");
        }
        assert_eq!(Filling::ALL.map(|one| Filling::named(one.name())), Filling::ALL.map(Some));
    }

    /// Bytes of `value` where each run of eight or more that stood there before is two: what a compressor finds.
    fn compressed(value: &[u8]) -> usize {
        let mut seen = std::collections::HashMap::new();
        let (mut at, mut bytes) = (0, 0);
        while at < value.len() {
            let known = value.get(at..at + 8).and_then(|run| seen.insert(run, at));
            let len = known.map_or(0, |before| {
                let pairs = value[before..].iter().zip(&value[at..]);
                pairs.take_while(|(old, new)| old == new).count()
            });
            at += len.max(1);
            bytes += if len > 0 { 2 } else { 1 };
        }
        bytes
    }

    #[test]
    fn a_model_knows_whether_all_are_alike() {
        let model = Model::new(3);
        (0..3).for_each(|number| model.set(number, 2));
        assert_eq!(model.same(), Some(2));
        model.set(1, 3);
        assert_eq!(model.same(), None);
    }
}
