//! A place of its own for what many threads write.

use std::ops::Deref;

/// Keeps a value alone on its cache lines; two, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
