//! What each key may hold: the number of the last change that was begun (`issued`), of the last that returned (`done`), and of the last
//! begun that deleted it.
//!
//! A key has one writer. It issues a change, makes it, and then says that it is done. So a reader that looks at `done` before it reads,
//! and at the others afterwards, knows what it may find:
//!
//! **I-HITS-1** A value is of a change in `done..=issued`; nothing is found only if the last change that was done deleted, or one was begun
//! since that does.
//!
//! All is written to a file as well, before and after each change: what a process wrote to a file outlives it, however it ends. After that
//! a key holds what was done last, or what was begun last:
//!
//! **I-HITS-2** What a kill leaves is of the change `done` or `issued`.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a place in the file: a power of two, so that none is in two pages.
const PLACE: usize = 32;

/// What a change does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Puts,
    Deletes,
}

/// The three numbers of a key; of a keyspace the change that makes it, in the same way.
#[derive(Debug, Default)]
struct KeyNumbers {
    issued: AtomicU64,
    done: AtomicU64,
    deleted: AtomicU64,
}

/// Numbers of changes between which an answer has to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionBounds {
    /// The last that was done before the read.
    pub done: u64,
    /// The last that was begun before the answer was there.
    pub issued: u64,
    /// The last of these that deletes.
    pub deleted: u64,
}

impl VersionBounds {
    /// Whether a read may find the value of a change, or nothing (I-HITS-1).
    pub fn allow(self, found: Option<u64>) -> bool {
        match found {
            Some(version) => {
                let deleted_before = self.deleted == self.done && version == self.done;
                (self.done..=self.issued).contains(&version) && !deleted_before
            }
            None => self.deleted >= self.done,
        }
    }

    /// Whether a read may find that there is some value.
    pub fn allow_some(self) -> bool {
        // A deletion that is noted and not issued yet changes nothing.
        self.issued > self.done || self.deleted != self.done
    }

    /// Whether a process that was killed may have left this (I-HITS-2).
    pub fn allow_left(self, found: Option<u64>) -> bool {
        let last = [self.done, self.issued];
        match found {
            Some(version) => self.allow(found) && last.contains(&version),
            None => last.contains(&self.deleted) && self.deleted >= self.done,
        }
    }
}

/// The numbers of all keys and keyspaces.
#[derive(Debug)]
pub struct HitLedger {
    slots: Vec<KeyNumbers>,
    next: AtomicU64,
    file: File,
}

impl HitLedger {
    /// Of so many keys and keyspaces: what the file at `path` says, if it is there.
    pub fn open(path: &Path, len: usize) -> Result<HitLedger, String> {
        // One more: the last number that was given, lest one is given twice when what was begun is not there.
        let len = len + 1;
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        file.set_len((len * PLACE) as u64).map_err(failed)?;
        let mut bytes = vec![0; len * PLACE];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let slots = bytes.as_chunks::<PLACE>().0.iter().map(|place| {
            let (words, _) = place.as_chunks::<8>();
            let word = |at: usize| AtomicU64::new(u64::from_le_bytes(words[at]));
            KeyNumbers { issued: word(0), done: word(1), deleted: word(2) }
        });
        let slots: Vec<KeyNumbers> = slots.collect();
        let last = slots.iter().map(|slot| slot.issued.load(SeqCst)).max().unwrap_or(0);
        Ok(HitLedger { slots, next: AtomicU64::new(last + 1), file })
    }

    /// A number for a change.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    /// A change of `slots`, which are one writer's, is about to begin.
    pub fn issue(&self, slots: Range<usize>, version: u64, effect: Effect) -> Result<(), String> {
        for slot in &self.slots[slots.clone()] {
            if effect == Effect::Deletes {
                slot.deleted.store(version, SeqCst);
            }
            slot.issued.store(version, SeqCst);
        }
        self.keep(slots)
    }

    /// The change has returned.
    pub fn acknowledge(&self, slots: Range<usize>, version: u64) -> Result<(), String> {
        self.slots[slots.clone()].iter().for_each(|slot| slot.done.store(version, SeqCst));
        self.keep(slots)
    }

    /// What was found in a store that no thread writes to is what there is. The file has it with [`HitLedger::keep_all`].
    pub fn settle(&self, at: usize, found: Option<u64>) {
        let slot = &self.slots[at];
        let version = found.unwrap_or(slot.deleted.load(SeqCst));
        slot.issued.store(version, SeqCst);
        slot.done.store(version, SeqCst);
        let deleted = slot.deleted.load(SeqCst);
        // Of a deletion that was begun and is not there.
        if found.is_some() && deleted > version {
            slot.deleted.store(0, SeqCst);
        }
    }

    /// Writes all numbers to the file.
    pub fn keep_all(&self) -> Result<(), String> {
        if let Some(last) = self.slots.last() {
            last.issued.store(self.next.load(SeqCst) - 1, SeqCst);
        }
        self.keep(0..self.slots.len())
    }

    /// Writes the numbers of `slots` to the file.
    fn keep(&self, slots: Range<usize>) -> Result<(), String> {
        let at = slots.start * PLACE;
        let mut bytes = Vec::with_capacity(slots.len() * PLACE);
        for slot in &self.slots[slots] {
            for word in [&slot.issued, &slot.done, &slot.deleted] {
                bytes.extend_from_slice(&word.load(SeqCst).to_le_bytes());
            }
            bytes.extend_from_slice(&[0; 8]);
        }
        self.file.write_all_at(&bytes, at as u64).map_err(|error| format!("the ledger: {error}"))
    }

    /// What was done last, to be looked at before a read.
    #[inline]
    pub fn done(&self, at: usize) -> u64 {
        self.slots[at].done.load(SeqCst)
    }

    /// What a read may have found since `done` was looked at.
    #[inline]
    pub fn bounds(&self, at: usize, done: u64) -> VersionBounds {
        let slot = &self.slots[at];
        // In this order: a deletion is noted before it is issued.
        let issued = slot.issued.load(SeqCst);
        VersionBounds { done, issued, deleted: slot.deleted.load(SeqCst) }
    }

    /// The same where no thread writes.
    pub fn settled(&self, at: usize) -> VersionBounds {
        self.bounds(at, self.done(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_begun_and_not_replaced_may_be_found() {
        let bounds = |done, issued, deleted| VersionBounds { done, issued, deleted };
        // At rest.
        assert!(bounds(5, 5, 2).allow(Some(5)) && bounds(5, 5, 2).allow_some());
        for wrong in [Some(4), Some(6), Some(2), None] {
            assert!(!bounds(5, 5, 2).allow(wrong), "{wrong:?}");
        }
        assert!(bounds(5, 5, 5).allow(None) && !bounds(5, 5, 5).allow_some());
        assert!(!bounds(5, 5, 5).allow(Some(5)) && !bounds(5, 5, 5).allow(Some(4)));
        // A put is under way.
        assert!([Some(5), Some(7)].into_iter().all(|found| bounds(5, 7, 2).allow(found)));
        assert!(!bounds(5, 7, 2).allow(None) && !bounds(5, 7, 2).allow(Some(8)));
        // A deletion is, or was and a put is.
        assert!(bounds(5, 7, 7).allow(None) && bounds(5, 9, 7).allow(None));
        // A put after a deletion is.
        assert!(bounds(5, 7, 5).allow(None) && bounds(5, 7, 5).allow(Some(7)));
    }

    #[test]
    fn a_kill_leaves_the_last_or_the_one_before() {
        let bounds = VersionBounds { done: 5, issued: 9, deleted: 2 };
        assert!(bounds.allow_left(Some(5)) && bounds.allow_left(Some(9)));
        assert!(!bounds.allow_left(Some(7)) && !bounds.allow_left(None));
        let deletes = VersionBounds { deleted: 9, ..bounds };
        assert!(deletes.allow_left(None) && deletes.allow_left(Some(5)));
        assert!(!VersionBounds { done: 9, ..bounds }.allow_left(Some(5)));
    }

    #[test]
    fn the_file_has_what_was_begun_and_done() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("ledger");
        let ledger = HitLedger::open(&path, 300).expect("new");
        let (one, two) = (ledger.number(), ledger.number());
        ledger.issue(10..200, one, Effect::Puts).expect("write");
        ledger.acknowledge(10..200, one).expect("write");
        ledger.issue(50..60, two, Effect::Deletes).expect("write");
        drop(ledger);
        let again = HitLedger::open(&path, 300).expect("there");
        assert!(again.number() > two);
        assert_eq!(again.settled(199), VersionBounds { done: one, issued: one, deleted: 0 });
        assert_eq!(again.settled(55), VersionBounds { done: one, issued: two, deleted: two });
        assert_eq!(again.settled(9), VersionBounds { done: 0, issued: 0, deleted: 0 });
        again.settle(55, Some(one));
        assert_eq!(again.settled(55), VersionBounds { done: one, issued: one, deleted: 0 });
        again.settle(56, None);
        assert!(again.settled(56).allow(None) && !again.settled(56).allow_some());
        (50..60).for_each(|at| again.settle(at, Some(one)));
        again.keep_all().expect("write");
        let last = HitLedger::open(&path, 300).expect("there");
        assert!(last.number() > two, "no number is given twice");
        assert_eq!(last.settled(56).issued, one);
    }
}
