//! After a failed persist or a background panic the store refuses writes and keeps reading: what the
//! failed step left behind is not known, and only recovery decides it.

use std::sync::OnceLock;

use base::{Error, ErrorKind, Result};

/// Set once, with the first cause.
#[derive(Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    #[cold]
    pub(crate) fn set(&self, cause: impl std::fmt::Display) {
        let _first_wins = self.cause.set(cause.to_string());
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.cause.get().is_some()
    }

    #[inline]
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::Closed,
                operation,
                format!("writes are refused after a failure; close and reopen the store: {cause}"),
            )),
        }
    }
}
