//! Sequence numbers.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

/// A sequence number: every key written gets its own, in commit order. The number of a commit is
/// the sequence number of its first key. Zero is never assigned.
///
/// A sequence number is a point in the order of commits and a count is a `u64`: a count can be added to a
/// number, and the difference of two numbers is a count.
///
/// ```
/// use base::Seq;
///
/// let first = Seq::new(7);
/// let last = first + 3;
/// assert_eq!((last.get(), last - first), (10, 3));
/// assert_eq!(last.to_string(), "10");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Seq(u64);

impl Seq {
    /// Before every write.
    pub const ZERO: Self = Self(0);
    /// Behind every write.
    pub const MAX: Self = Self(u64::MAX);

    /// The sequence number that is `number` in files and in records.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, as files and records hold it.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sequence number after this one.
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The sequence number before this one; [`Seq::ZERO`] stays.
    #[inline]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How far `self` lies behind `older`; `None` where it lies before it.
    #[inline]
    pub const fn checked_distance(self, older: Self) -> Option<u64> {
        self.0.checked_sub(older.0)
    }

    /// The same modulo 2^64: large where `self` lies before `older`.
    #[inline]
    pub const fn wrapping_distance(self, older: Self) -> u64 {
        self.0.wrapping_sub(older.0)
    }

    /// `count` numbers further, where that fits.
    #[inline]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// `count` numbers before, where that fits.
    #[inline]
    pub const fn checked_sub(self, count: u64) -> Option<Self> {
        match self.0.checked_sub(count) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Add<u64> for Seq {
    type Output = Self;

    #[inline]
    fn add(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl AddAssign<u64> for Seq {
    #[inline]
    fn add_assign(&mut self, count: u64) {
        self.0 += count;
    }
}

impl Sub<u64> for Seq {
    type Output = Self;

    #[inline]
    fn sub(self, count: u64) -> Self {
        Self(self.0 - count)
    }
}

impl Sub for Seq {
    type Output = u64;

    #[inline]
    fn sub(self, older: Self) -> u64 {
        self.0 - older.0
    }
}

/// A sequence number that threads share.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicSeq(AtomicU64);

impl AtomicSeq {
    /// Holds `seq`.
    #[inline]
    pub const fn new(seq: Seq) -> Self {
        Self(AtomicU64::new(seq.0))
    }

    /// The sequence number that it holds.
    #[inline]
    pub fn load(&self, order: Ordering) -> Seq {
        Seq(self.0.load(order))
    }

    /// From now on it holds `seq`.
    #[inline]
    pub fn store(&self, seq: Seq, order: Ordering) {
        self.0.store(seq.0, order);
    }

    /// From now on it holds `seq`; returns what it held.
    #[inline]
    pub fn swap(&self, seq: Seq, order: Ordering) -> Seq {
        Seq(self.0.swap(seq.0, order))
    }
}
