//! Offsets in persistent memory.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Where a byte is: its offset from the start of the pool, and of the region that holds it.
///
/// An offset is a place and a length is a `u64`: a length can be added to an offset, and the difference of two offsets is a
/// length. What formats call an offset is read and written by [`PmOffset::new`] and [`PmOffset::get`].
///
/// ```
/// use base::PmOffset;
///
/// let start = PmOffset::new(4096);
/// let end = start + 64;
/// assert_eq!((end.get(), end - start), (4160, 64));
/// assert!(end.is_aligned(64));
/// assert_eq!(end.to_string(), "4160");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PmOffset(u64);

impl PmOffset {
    /// The first byte.
    pub const ZERO: Self = Self(0);

    /// The offset that is `offset` on media.
    #[inline]
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The number, as media hold it.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `len` bytes further, where that fits.
    #[inline]
    pub const fn checked_add(self, len: u64) -> Option<Self> {
        match self.0.checked_add(len) {
            Some(offset) => Some(Self(offset)),
            None => None,
        }
    }

    /// Bytes from `start` to here; `None` where `start` lies behind.
    #[inline]
    pub const fn checked_distance(self, start: Self) -> Option<u64> {
        self.0.checked_sub(start.0)
    }

    /// Whether it is a multiple of `unit` bytes.
    #[inline]
    pub const fn is_aligned(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }

    /// The next multiple of `unit` bytes, from here on.
    #[inline]
    pub const fn align_up(self, unit: u64) -> Self {
        Self(self.0.next_multiple_of(unit))
    }
}

impl fmt::Debug for PmOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for PmOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Add<u64> for PmOffset {
    type Output = Self;

    #[inline]
    fn add(self, len: u64) -> Self {
        Self(self.0 + len)
    }
}

impl AddAssign<u64> for PmOffset {
    #[inline]
    fn add_assign(&mut self, len: u64) {
        self.0 += len;
    }
}

impl Sub<u64> for PmOffset {
    type Output = Self;

    #[inline]
    fn sub(self, len: u64) -> Self {
        Self(self.0 - len)
    }
}

impl Sub for PmOffset {
    type Output = u64;

    #[inline]
    fn sub(self, start: Self) -> u64 {
        self.0 - start.0
    }
}
