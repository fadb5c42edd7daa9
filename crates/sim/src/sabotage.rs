//! Persist mutants: what should make bytes durable is dropped or shortened while the run is recorded. In
//! memory that is a flush or fence of one site, on the disk a sync of files or directories of one kind.
//!
//! The engine is not changed for this; it believes that everything was done.

use std::fmt;
use std::path::Path;

use base::LINE;
use pmem::Site;
use ssd::{Call, Heed};

use crate::log::{Log, StoreKind};

/// What goes wrong at the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Flushes do not happen; of a non-temporal copy, the part that makes it durable.
    DropFlush,
    /// Fences do not happen.
    DropFence,
    /// Flushes miss their first line.
    ShortFlushFirst,
    /// Flushes miss their last line.
    ShortFlushLast,
    /// Non-temporal copies are ordinary ones, which no thread flushes.
    PlainInsteadOfNt,
    /// Fences are made by another thread than the one that flushed.
    FenceOnOtherThread,
    /// Words are stored in two halves.
    TornWord,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 7] = [
        Fault::DropFlush,
        Fault::DropFence,
        Fault::ShortFlushFirst,
        Fault::ShortFlushLast,
        Fault::PlainInsteadOfNt,
        Fault::FenceOnOtherThread,
        Fault::TornWord,
    ];
}

/// A fault at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sabotage {
    /// The site that suffers.
    pub site: Site,
    /// What goes wrong there.
    pub what: Fault,
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:?}", self.what, self.site)
    }
}

/// A disk that says it has synced, and has not, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lie {
    /// [`Call::Sync`] or [`Call::SyncDir`].
    pub call: Call,
    /// Part of the paths that are lied about; empty for all.
    pub on: &'static str,
    /// How much is done.
    pub what: Heed,
}

impl Lie {
    /// Every lie about files whose paths contain `on`, and about directories whose paths contain `dir`.
    pub fn all(on: &'static str, dir: &'static str) -> [Lie; 5] {
        let sync = |what| Lie { call: Call::Sync, on, what };
        [
            sync(Heed::Ignored),
            sync(Heed::AllButFirst),
            sync(Heed::AllButLast),
            sync(Heed::AllButLength),
            Lie { call: Call::SyncDir, on: dir, what: Heed::Ignored },
        ]
    }

    pub(crate) fn is_about(self, call: Call, path: &Path) -> bool {
        call == self.call && path.to_string_lossy().contains(self.on)
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "each {} on *{}* is {}", self.call, self.on, self.what)
    }
}

/// A fault that is planted while a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planted {
    /// In memory.
    Memory(Sabotage),
    /// On the disk.
    Disk(Lie),
}

impl From<Sabotage> for Planted {
    fn from(sabotage: Sabotage) -> Self {
        Planted::Memory(sabotage)
    }
}

impl From<Lie> for Planted {
    fn from(lie: Lie) -> Self {
        Planted::Disk(lie)
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Planted::Memory(sabotage) => sabotage.fmt(f),
            Planted::Disk(lie) => lie.fmt(f),
        }
    }
}

/// A thread that no writer is.
const OTHER_THREAD: u16 = u16::MAX;

impl Sabotage {
    /// Records a store; true if the fault struck.
    pub(crate) fn store(
        self,
        log: &mut Log,
        thread: u16,
        at: u64,
        bytes: &[u8],
        kind: StoreKind,
    ) -> bool {
        let site = self.site;
        // The lines before `first` and from `last` on lose the flush that a non-temporal copy implies.
        let (first, last) = match (kind, self.what) {
            (StoreKind::Word, Fault::TornWord) => {
                log.store(site, thread, at, &bytes[..4], StoreKind::Word);
                log.store(site, thread, at + 4, &bytes[4..], StoreKind::Word);
                return true;
            }
            (StoreKind::NonTemporal, Fault::DropFlush | Fault::PlainInsteadOfNt) => (0, 0),
            (StoreKind::NonTemporal, Fault::ShortFlushFirst) => {
                (LINE.min(bytes.len()), bytes.len())
            }
            (StoreKind::NonTemporal, Fault::ShortFlushLast) => {
                (0, bytes.len().saturating_sub(LINE))
            }
            _ => {
                log.store(site, thread, at, bytes, kind);
                return false;
            }
        };
        log.store(site, thread, at, &bytes[..first], StoreKind::Bulk);
        log.store(site, thread, at + first as u64, &bytes[first..last], StoreKind::NonTemporal);
        log.store(site, thread, at + last as u64, &bytes[last..], StoreKind::Bulk);
        true
    }

    /// Records a flush; true if the fault struck.
    pub(crate) fn flush(self, log: &mut Log, thread: u16, at: u64, len: u64) -> bool {
        let line = LINE as u64;
        let (from, to) = match self.what {
            Fault::DropFlush => (at, at),
            Fault::ShortFlushFirst => ((at / line + 1) * line, at + len),
            Fault::ShortFlushLast => (at, (at + len).saturating_sub(1) / line * line),
            _ => (at, at + len),
        };
        log.flush(self.site, thread, from, to.saturating_sub(from));
        (from, to) != (at, at + len)
    }

    /// Records a fence; true if the fault struck.
    pub(crate) fn fence(self, log: &mut Log, thread: u16) -> bool {
        match self.what {
            Fault::DropFence => return true,
            Fault::FenceOnOtherThread => log.fence(self.site, OTHER_THREAD),
            _ => log.fence(self.site, thread),
        }
        self.what == Fault::FenceOnOtherThread
    }
}
