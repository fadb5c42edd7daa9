//! From the open of a store to its end: whether it is open, who uses it, and what the open found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Error, ErrorKind, Result};
use pmem::SameProcess;

use crate::keyspace::usage::Usage;
use crate::recovery::recover::{Access, Report};

/// The error for work on a closed store.
#[cold]
pub(crate) fn closed(operation: &'static str) -> Error {
    Error::new(ErrorKind::Closed, operation, "the store is closed; open it again")
}

pub(crate) struct Lifetime {
    pub access: Access,
    /// What the open found and did.
    pub recovered: Report,
    pub closed: AtomicBool,
    /// Of a store that is closed: background work has ended.
    pub stopped: AtomicBool,
    /// What is in use; others may open a store that is closed when nothing is.
    pub usage: Usage,
    /// Others may open it.
    released: Mutex<bool>,
    /// A fork of this process has a copy of the store, and must leave what it stands for alone.
    pub process: SameProcess,
}

impl Lifetime {
    pub(crate) fn begin(access: Access, recovered: Report) -> Result<Lifetime> {
        Ok(Lifetime {
            access,
            recovered,
            closed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            usage: Usage::default(),
            released: Mutex::default(),
            process: SameProcess::begin()?,
        })
    }

    pub(crate) fn released(&self) -> MutexGuard<'_, bool> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses work on a closed store, and on one that a process has from the one that it was forked from.
    #[inline]
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        if !self.process.holds() {
            return Err(Error::new(
                ErrorKind::Closed,
                operation,
                "another process opened the store, and this one was forked from it; open the store in the process that \
                 uses it, after the fork",
            ));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed(operation));
        }
        Ok(())
    }
}
