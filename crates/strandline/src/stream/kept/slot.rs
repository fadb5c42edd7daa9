//! A slot: how far a change stream is.

use std::sync::atomic::{AtomicBool, Ordering};

use base::{AtomicSeq, Seq};

use crate::manifest::streams::SlotDesc;

/// The slot of a stream of an open store. It changes behind the edit that says so.
pub(crate) struct Slot {
    pub name: String,
    /// Bytes that may be kept for it.
    pub max_bytes: u64,
    acked: AtomicSeq,
    lost: AtomicSeq,
    dropped: AtomicBool,
}

impl Slot {
    pub(crate) fn new(name: &str, desc: SlotDesc) -> Slot {
        Slot {
            name: name.to_owned(),
            max_bytes: desc.max_bytes,
            acked: AtomicSeq::new(desc.acked),
            lost: AtomicSeq::new(desc.lost),
            dropped: AtomicBool::new(false),
        }
    }

    /// Everything up to this number was acknowledged.
    pub(crate) fn acked(&self) -> Seq {
        self.acked.load(Ordering::Acquire)
    }

    /// Everything up to this number was given up.
    pub(crate) fn lost(&self) -> Seq {
        self.lost.load(Ordering::Acquire)
    }

    /// What is behind this number is kept.
    pub(crate) fn passed(&self) -> Seq {
        self.desc().passed()
    }

    /// As the manifest has it.
    pub(crate) fn desc(&self) -> SlotDesc {
        SlotDesc { acked: self.acked(), lost: self.lost(), max_bytes: self.max_bytes }
    }

    /// Notes what an edit made of it.
    pub(crate) fn set(&self, desc: SlotDesc) {
        self.acked.store(desc.acked, Ordering::Release);
        self.lost.store(desc.lost, Ordering::Release);
    }

    /// Whether its stream was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn drop_stream(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}
