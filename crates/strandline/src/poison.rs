//! After a failed persist or a background panic the store refuses writes and keeps reading: what the
//! failed step left behind is not known, and only recovery decides it.

use std::sync::{Arc, OnceLock};

use base::{Error, ErrorKind, Result};

use crate::hooks::events::queue::{Events, WritesAfter};

/// A step after which memory and manifest would differ if it stopped here.
#[must_use]
pub(crate) struct Unended<'p> {
    poison: &'p Poison,
    what: Option<&'static str>,
}

impl Unended<'_> {
    /// It is whole again.
    pub(crate) fn end(mut self) {
        self.what = None;
    }
}

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        if let Some(what) = self.what {
            self.poison.set(format_args!("{what} stopped half-way; please report this"));
        }
    }
}

/// Set once, with the first cause.
#[derive(Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
    events: Arc<Events>,
}

impl Poison {
    pub(crate) fn new(events: &Arc<Events>) -> Poison {
        Poison { cause: OnceLock::new(), events: Arc::clone(events) }
    }

    #[cold]
    pub(crate) fn set(&self, cause: impl std::fmt::Display) {
        let first = self.cause.set(cause.to_string()).is_ok();
        if let Err(error) = self.check("work")
            && first
        {
            self.events.note_error(&error, WritesAfter::Refused);
        }
    }

    /// Begins what must come to its end: if it does not, the store refuses writes.
    pub(crate) fn unless_ended(&self, what: &'static str) -> Unended<'_> {
        Unended { poison: self, what: Some(what) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caught::caught;

    #[test]
    fn what_does_not_end_poisons() {
        let poison = Poison::default();
        poison.unless_ended("this").end();
        assert!(!poison.is_set());
        let panicked = caught(|| {
            let _unended = poison.unless_ended("that");
            panic!("in between");
        });
        assert!(panicked.is_err());
        assert!(poison.check("write").expect_err("poison").context().contains("that stopped"));
    }
}
