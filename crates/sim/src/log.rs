//! What a run did to memory, in order: recorded once, replayed for every crash point.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pmem::Site;
use ssd::{Call, Disk};

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes were stored.
    Store {
        /// Offset in the region.
        at: u32,
        /// Length in bytes.
        len: u32,
        /// Where the stored bytes begin in [`Log::bytes`].
        data: u32,
        /// How they were stored.
        kind: StoreKind,
        /// The acting virtual thread.
        thread: u16,
        /// The persist site.
        site: Site,
    },
    /// The lines of a range were flushed.
    Flush {
        /// Offset in the region.
        at: u32,
        /// Length in bytes.
        len: u32,
        /// The acting virtual thread.
        thread: u16,
        /// The persist site.
        site: Site,
    },
    /// A thread's flushes were fenced.
    Fence {
        /// The acting virtual thread.
        thread: u16,
        /// The persist site.
        site: Site,
    },
    /// A call changed the disk.
    Disk {
        /// Which of [`Log::calls`].
        call: u32,
        /// The acting virtual thread.
        thread: u16,
    },
    /// Something the history remarks upon, such as an acknowledgement; memory does not change.
    Mark,
}

/// How bytes were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// One aligned word, whole or not at all.
    Word,
    /// An ordinary copy: its atoms reach the media in any order.
    Bulk,
    /// A copy past the caches: as [`Bulk`](Self::Bulk), and flushed by the storing thread.
    NonTemporal,
}

impl Event {
    /// The persist site of the event; calls on the disk and marks have none.
    pub fn site(&self) -> Option<Site> {
        match *self {
            Event::Store { site, .. } | Event::Flush { site, .. } | Event::Fence { site, .. } => {
                Some(site)
            }
            Event::Disk { .. } | Event::Mark => None,
        }
    }

    /// Whether memory or the disk is concerned.
    pub fn is_media(&self) -> bool {
        !matches!(self, Event::Mark)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Store { at, len, kind, thread, site, .. } => {
                write!(f, "T{thread} stored {len} bytes at {at} ({kind:?}, {site:?})")
            }
            Event::Flush { at, len, thread, site } => {
                write!(f, "T{thread} flushed {len} bytes at {at} ({site:?})")
            }
            Event::Fence { thread, site } => write!(f, "T{thread} fenced ({site:?})"),
            Event::Disk { call, thread } => write!(f, "T{thread} made call {call} on the disk"),
            Event::Mark => write!(f, "mark"),
        }
    }
}

/// A call that changed the disk.
#[derive(Clone, Debug)]
pub struct DiskCall {
    /// What was called.
    pub call: Call,
    /// On which path.
    pub path: String,
    /// What the disk was then.
    pub disk: Arc<Disk>,
}

impl DiskCall {
    /// The kind of file, as far as its name tells: `.sst` of `db/0012.sst`, `MANIFEST-` of `MANIFEST-0007`,
    /// `wal` of the directory `db/wal`.
    pub fn kind(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let extension = name.rfind('.').map(|dot| &name[dot..]);
        extension.unwrap_or_else(|| name.trim_end_matches(|c: char| c.is_ascii_digit()))
    }
}

impl fmt::Display for DiskCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.call, self.path)
    }
}

/// The events of one run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// In the order in which they happened.
    pub events: Vec<Event>,
    /// The stored bytes that [`Event::Store`] refers to.
    pub bytes: Vec<u8>,
    /// The calls that [`Event::Disk`] refers to.
    pub calls: Vec<DiskCall>,
}

impl Log {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
        self.calls.clear();
    }

    /// Appends a store.
    pub fn store(&mut self, site: Site, thread: u16, at: u64, bytes: &[u8], kind: StoreKind) {
        if bytes.is_empty() {
            return;
        }
        let (data, len) = (self.bytes.len() as u32, bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        self.events.push(Event::Store { at: at as u32, len, data, kind, thread, site });
    }

    /// Appends a flush of a range.
    pub fn flush(&mut self, site: Site, thread: u16, at: u64, len: u64) {
        if len > 0 {
            self.events.push(Event::Flush { at: at as u32, len: len as u32, thread, site });
        }
    }

    /// Appends a fence.
    pub fn fence(&mut self, site: Site, thread: u16) {
        self.events.push(Event::Fence { thread, site });
    }

    /// Appends a call that left `disk`.
    pub fn disk(&mut self, thread: u16, call: Call, path: String, disk: Disk) {
        self.events.push(Event::Disk { call: self.calls.len() as u32, thread });
        self.calls.push(DiskCall { call, path, disk: Arc::new(disk) });
    }

    /// The call of an event, if it is one on the disk.
    pub fn call(&self, event: &Event) -> Option<&DiskCall> {
        match event {
            Event::Disk { call, .. } => self.calls.get(*call as usize),
            _ => None,
        }
    }

    /// The disk after the events of a range, if one of them changed it.
    pub fn disk_after(&self, events: Range<usize>) -> Option<&Arc<Disk>> {
        if self.calls.is_empty() {
            return None;
        }
        self.events[events].iter().rev().find_map(|e| self.call(e)).map(|call| &call.disk)
    }

    /// An event, in words.
    pub fn describe(&self, event: &Event) -> String {
        match (self.call(event), event) {
            (Some(call), Event::Disk { thread, .. }) => format!("T{thread} made the call: {call}"),
            _ => event.to_string(),
        }
    }

    /// Appends a mark and returns its index.
    pub fn mark(&mut self) -> usize {
        self.events.push(Event::Mark);
        self.events.len() - 1
    }
}
