//! Owned bytes of a key or a value.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes up to which a slice needs no memory of its own.
const SHORT_MAX: usize = 22;

/// Owned bytes of a key or a value, as iterators give them out.
///
/// A slice holds nothing of the store: keep as many as you like, on any thread, for as long as you like. It reads as a
/// `&[u8]`. Clones of a long one share its bytes.
///
/// ```
/// # use strandline::Slice;
/// let key = Slice::from("user/17");
/// assert_eq!(key, "user/17");
/// assert!(key.starts_with(b"user/"));
/// let bytes: Vec<u8> = key.into();
/// assert_eq!(bytes, b"user/17");
/// ```
#[derive(Clone)]
pub struct Slice(Held);

#[derive(Clone)]
enum Held {
    Short { len: u8, bytes: [u8; SHORT_MAX] },
    Long(Arc<[u8]>),
}

impl Slice {
    /// A copy of `bytes`.
    #[inline]
    pub fn new(bytes: &[u8]) -> Slice {
        let mut short = [0; SHORT_MAX];
        match short.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Slice(Held::Short { len: bytes.len() as u8, bytes: short })
            }
            None => Slice(Held::Long(bytes.into())),
        }
    }

    /// A copy that can be changed.
    pub fn to_vec(&self) -> Vec<u8> {
        (**self).to_vec()
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::new(&[])
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Short { len, bytes } => &bytes[..usize::from(*len)],
            Held::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice::new(bytes)
    }
}

impl From<&str> for Slice {
    fn from(text: &str) -> Slice {
        Slice::new(text.as_bytes())
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Slice {
        Slice::new(&bytes)
    }
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.to_vec()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bytes_are_the_same_to_a_reader() {
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).collect();
            let slice = Slice::new(&bytes);
            assert_eq!(slice, bytes);
            assert_eq!(slice.clone(), slice);
            assert_eq!(slice.to_vec(), bytes);
            assert_eq!(matches!(slice.0, Held::Short { .. }), usize::from(len) <= SHORT_MAX);
        }
        assert_eq!(format!("{:?}", Slice::from("a\n")), r#"b"a\n""#);
        let (low, high) = (Slice::from("a"), Slice::from("b"));
        assert!(low < high && Slice::default().is_empty());
    }
}
