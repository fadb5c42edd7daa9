//! Values: slices of one random buffer, as db_bench cuts them, or values that tell their key.

use super::rng::Rng;

/// Bytes of the buffer, unless values are longer.
const BUFFER: usize = 1 << 20;
/// Bytes of a piece of the buffer: its begin is random, and repeated to its end.
const PIECE: usize = 100;
/// Bytes of a telling value before its filling: key number, then place of the filling.
const HEAD: usize = 12;

/// What values are cut from. The same in every process, so that values can be checked later.
#[derive(Debug)]
pub struct Source {
    buffer: Vec<u8>,
    size: usize,
}

/// What values are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// They are bytes of the buffer.
    Plain,
    /// They tell their key, and can be checked with [`Source::tells`].
    Telling,
}

/// Cuts values of one thread.
#[derive(Debug)]
pub struct Values<'a> {
    source: &'a Source,
    at: usize,
    /// Holds a telling value; unused otherwise.
    value: Vec<u8>,
    marking: Marking,
}

impl Source {
    /// A source of values of `size` bytes that compress to half of that.
    pub fn new(size: usize) -> Source {
        Source::with_ratio(size, 0.5)
    }

    /// A source of values of `size` bytes that compress to `ratio` of that.
    pub fn with_ratio(size: usize, ratio: f64) -> Source {
        let mut rng = Rng::new(301);
        let random = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        let mut buffer = Vec::with_capacity(BUFFER + PIECE);
        while buffer.len() < BUFFER.max(size) {
            let start = buffer.len();
            buffer.extend((0..random).map(|_| b' ' + rng.below(95) as u8));
            for at in random..PIECE {
                buffer.push(buffer[start + at % random]);
            }
        }
        Source { buffer, size }
    }

    /// Values for thread `thread`.
    pub fn values(&self, thread: usize, marking: Marking) -> Values<'_> {
        let at = thread * 4099 % (self.buffer.len() - self.size + 1);
        Values { source: self, at, value: Vec::new(), marking }
    }

    /// Whether `value` is one that was written under key `number`, whole.
    pub fn tells(&self, number: u64, value: &[u8]) -> bool {
        if value.len() < HEAD {
            return number.to_le_bytes().starts_with(&value[..value.len().min(8)]);
        }
        let place = u32::from_le_bytes([value[8], value[9], value[10], value[11]]) as usize;
        let filling = self.buffer.get(place..place + value.len() - HEAD);
        value[..8] == number.to_le_bytes() && filling == Some(&value[HEAD..])
    }
}

impl Values<'_> {
    /// The next value, for key `number`.
    #[inline]
    pub fn next(&mut self, number: u64) -> &[u8] {
        self.sized(number, self.source.size)
    }

    /// The next value, of `size` bytes, which the buffer has.
    #[inline]
    pub fn sized(&mut self, number: u64, size: usize) -> &[u8] {
        if self.marking == Marking::Plain {
            let place = self.take(size);
            return &self.source.buffer[place..place + size];
        }
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        self.append(number, size, &mut value);
        self.value = value;
        &self.value
    }

    /// Appends the next telling value, of `size` bytes, which the buffer has.
    #[inline]
    pub fn append(&mut self, number: u64, size: usize, out: &mut Vec<u8>) {
        let (place, whole) = (self.take(size), out.len() + size);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&(place as u32).to_le_bytes());
        out.extend_from_slice(&self.source.buffer[place..place + size.saturating_sub(HEAD)]);
        out.truncate(whole);
    }

    /// The place of the next `size` bytes of the buffer.
    #[inline]
    fn take(&mut self, size: usize) -> usize {
        if self.at + size > self.source.buffer.len() {
            self.at = 0;
        }
        let place = self.at;
        self.at += size;
        place
    }
}

/// Refuses a value that is not of `size` bytes.
#[inline]
pub(crate) fn check_len(value: &[u8], size: usize) -> Result<(), String> {
    if value.len() == size {
        return Ok(());
    }
    let len = value.len();
    Err(format!("a value of {len} bytes, not {size}; a store that was filled otherwise?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_values_tell_their_key_and_nothing_else() {
        for size in [0, 1, 8, 11, 12, 13, 100, 4096] {
            let source = Source::new(size);
            let mut values = source.values(3, Marking::Telling);
            for number in 0..20_000 {
                let value = values.next(number).to_vec();
                assert_eq!(value.len(), size);
                assert!(source.tells(number, &value));
                assert!(size < 8 || !source.tells(number + 1, &value));
                if size > HEAD {
                    let mut bent = value;
                    bent[size - 1] ^= 1;
                    assert!(!source.tells(number, &bent));
                }
            }
        }
    }

    #[test]
    fn values_are_as_random_as_they_are_asked_to_be() {
        // Of each piece, all that follows its random begin is known from that.
        for (ratio, random) in [(0.0, 1), (0.25, 25), (0.5, 50), (1.0, 100)] {
            let source = Source::with_ratio(100, ratio);
            let value = source.values(0, Marking::Plain).next(0).to_vec();
            assert!((random..100).all(|at| value[at] == value[at % random]), "{ratio}");
            let repeats = (1..random).filter(|at| value[*at] == value[at - 1]).count();
            assert!(repeats * 5 <= random, "{ratio}");
        }
    }

    #[test]
    fn values_may_be_longer_than_the_buffer() {
        let source = Source::new(3 << 20);
        assert_eq!(source.values(1, Marking::Plain).next(0).len(), 3 << 20);
    }
}
