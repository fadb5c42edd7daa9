//! Moving over the entries of one block.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use base::bytes::common_prefix;
use base::codec::Reader;
use smallvec::SmallVec;

use super::entry::Entry;
use super::{Block, Damage, Keys, Values};
use crate::handle::{Handle, read_signed};
use crate::key::{TRAILER_LEN, Target};

/// A place in a block. The key is put together in a buffer that is used again.
#[derive(Clone, Debug)]
pub(crate) struct BlockCursor {
    block: Arc<Block>,
    key: SmallVec<[u8; 128]>,
    value: Range<usize>,
    /// Where the entry begins; the end of the entries where the cursor is on none.
    at: usize,
    next: usize,
    /// What the value says, where values are handles.
    handle: Handle,
}

impl BlockCursor {
    /// On no entry of `block`.
    pub fn new(block: Arc<Block>) -> Self {
        let end = block.entries_end;
        Self {
            block,
            key: SmallVec::new(),
            value: 0..0,
            at: end,
            next: end,
            handle: Handle::default(),
        }
    }

    /// On no entry of no block.
    pub fn nowhere() -> Self {
        Self::new(Arc::new(Block::empty()))
    }

    /// Goes over to `block`, on none of its entries. Keeps its buffer.
    pub fn enter(&mut self, block: Arc<Block>) {
        self.block = block;
        self.leave();
    }

    /// Off every entry.
    pub fn leave(&mut self) {
        self.at = self.block.entries_end;
        self.next = self.at;
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.at < self.block.entries_end
    }

    #[inline]
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Where the entry begins in the block.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The whole key; of no use where the cursor is on no entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value.clone()
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.touch(self.value.clone());
        &self.block.bytes[self.value.clone()]
    }

    #[inline]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// To the first entry.
    pub fn first(&mut self) -> Result<(), Damage> {
        self.key.clear();
        self.land(0)
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<(), Damage> {
        match self.block.restarts {
            0 => self.leave(),
            restarts => self.walk_to(restarts - 1, self.block.entries_end)?,
        }
        Ok(())
    }

    /// To the next entry.
    #[inline]
    pub fn next(&mut self) -> Result<(), Damage> {
        self.land(self.next)
    }

    /// To the next entry of another user key; tells whether the block has one. Where it has none the key stays.
    #[inline]
    pub fn next_user(&mut self) -> Result<bool, Damage> {
        loop {
            let at = self.next;
            let Some(entry) = self.entry(at)? else {
                self.leave();
                return Ok(false);
            };
            self.block.touch(at..entry.key().end);
            let same = self.has_user_of(&entry);
            self.take(at, &entry)?;
            if !same {
                return Ok(true);
            }
        }
    }

    /// Whether an entry behind this one has its user key, too.
    #[inline]
    fn has_user_of(&self, entry: &Entry) -> bool {
        let unshared = &self.block.bytes[entry.key()];
        let user = self.key.len().saturating_sub(TRAILER_LEN);
        let rest = user.saturating_sub(entry.shared);
        // Writers share as much as they can, so that the first byte mostly tells.
        entry.shared + unshared.len() == self.key.len()
            && (rest == 0 || unshared[0] == self.key[entry.shared])
            && unshared[..rest] == self.key[user - rest..user]
    }

    /// To the entry before; off every entry where this is the first.
    pub fn prev(&mut self) -> Result<(), Damage> {
        let stop = self.at;
        if stop == 0 || !self.valid() {
            self.leave();
            return Ok(());
        }
        let (mut low, mut high) = (0, self.block.restarts);
        while high - low > 1 {
            let mid = low + (high - low) / 2;
            if self.block.restart(mid) < stop {
                low = mid;
            } else {
                high = mid;
            }
        }
        self.walk_to(low, stop)
    }

    /// To the first entry that is not less than `target`.
    #[inline]
    pub fn seek(&mut self, target: &Target<'_>) -> Result<(), Damage> {
        if self.block.restarts == 0 {
            return Ok(());
        }
        if let Some(restart) = self.block.told_by_heads(target) {
            self.key.clear();
            let behind = restart == self.block.restarts;
            return self.land(if behind {
                self.block.entries_end
            } else {
                self.block.restart(restart)
            });
        }
        let restart = self.block.restart_before(target)?;
        self.seek_from(restart, target)
    }

    /// To the first entry not less than `target` from restart `restart` on.
    fn seek_from(&mut self, restart: usize, target: &Target<'_>) -> Result<(), Damage> {
        self.key.clear();
        let mut at = self.block.restart(restart);
        if self.block.keys == Keys::Internal && self.block.values == Values::Sized {
            let skimmed = skim(&self.block, at, target);
            self.key.extend_from_slice(&target.user[..skimmed.shared]);
            at = skimmed.at;
            // All up to there is read by now, and that entry, too.
            self.land_on_read(at)?;
        } else {
            self.land(at)?;
        }
        while self.valid() && self.block.order(&self.key, target) == Ordering::Less {
            self.land(self.next)?;
        }
        Ok(())
    }

    /// Like [`Self::seek`] where only an entry of that very user key matters: the hash index, if there is
    /// one, names the restart to begin at.
    #[inline]
    pub fn find(&mut self, target: &Target<'_>) -> Result<(), Damage> {
        if let Some(restart) = self.block.hashed_restart(target.user) {
            self.seek_from(restart, target)?;
            // Only a hit is certain: another key may live in the same bucket.
            if self.valid() && target.same_user(&self.key) {
                return Ok(());
            }
        }
        self.seek(target)
    }

    /// Along the entries from a restart to the one that ends at `stop`.
    fn walk_to(&mut self, restart: usize, stop: usize) -> Result<(), Damage> {
        self.key.clear();
        self.land(self.block.restart(restart))?;
        while self.next < stop {
            self.land(self.next)?;
        }
        // An entry that reaches over the next restart would hide others from one of both directions.
        if self.next == stop { Ok(()) } else { Err(self.damaged(self.at)) }
    }

    /// Takes the entry at `at`, the one behind the entry whose key is in the buffer.
    #[inline(always)]
    fn land(&mut self, at: usize) -> Result<(), Damage> {
        match self.entry(at)? {
            Some(entry) => {
                self.block.touch(at..entry.key().end);
                self.take(at, &entry)
            }
            None => {
                self.leave();
                Ok(())
            }
        }
    }

    /// The same of one that was read, if its block lies where reads are told.
    #[inline(always)]
    fn land_on_read(&mut self, at: usize) -> Result<(), Damage> {
        match self.entry(at)? {
            Some(entry) => self.take(at, &entry),
            None => {
                self.leave();
                Ok(())
            }
        }
    }

    /// The entry at `at`, the one behind the entry whose key is in the buffer; `None` at the end.
    #[inline(always)]
    fn entry(&mut self, at: usize) -> Result<Option<Entry>, Damage> {
        if at >= self.block.entries_end {
            return Ok(None);
        }
        match self.block.entry(at) {
            Some(entry) if entry.shared <= self.key.len() => Ok(Some(entry)),
            _ => Err(self.damaged(at)),
        }
    }

    /// Stands on the entry at `at`.
    #[inline(always)]
    fn take(&mut self, at: usize, entry: &Entry) -> Result<(), Damage> {
        let block = &*self.block;
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&block.bytes[entry.key()]);
        self.value = entry.value();
        self.at = at;
        self.next = entry.next;
        if block.values != Values::Sized {
            let value = &self.block.bytes[self.value.clone()];
            let whole = block.values == Values::SizedHandles || entry.shared == 0;
            self.handle = match handle_in(value, (!whole).then_some(self.handle)) {
                Some(handle) => handle,
                None => return Err(self.damaged(at)),
            };
        }
        Ok(())
    }

    #[cold]
    fn damaged(&mut self, at: usize) -> Damage {
        self.leave();
        Damage { at, what: "no entry can be decoded" }
    }
}

/// How far a search got without putting keys together.
struct Skimmed {
    /// An entry; all before it are less than the target.
    at: usize,
    /// Bytes of the target that its key begins with, as many as it shares with the key before.
    shared: usize,
}

/// Goes along entries from the restart at `from` for as long as they are less than `target`, comparing
/// only what is new in each. The last key that was compared agrees with the target in `matched` bytes and
/// is less in the next. A key that shares more than these with it is less for the same byte. Of one that
/// shares no more, the shared bytes are those of the target, and what follows can be compared.
///
/// Stops early where neither helps, so that the caller has to compare on. Damage is left to the caller too.
#[inline]
fn skim(block: &Block, from: usize, target: &Target<'_>) -> Skimmed {
    // The last entry whose shared bytes are those of the target.
    let mut known = Skimmed { at: from, shared: 0 };
    let (mut at, mut matched, mut differs) = (from, 0, false);
    let mut reads = block.reads();
    while let Some(entry) = block.entry(at) {
        reads.add(at..entry.key().end);
        if entry.shared > matched {
            if !differs {
                break;
            }
            at = entry.next;
            continue;
        }
        known = Skimmed { at, shared: entry.shared };
        let tail = &block.bytes[entry.key()];
        let Some((user, trailer)) = tail.split_last_chunk::<TRAILER_LEN>() else { break };
        let rest = &target.user[entry.shared..];
        let same = common_prefix(user, rest);
        matched = entry.shared + same;
        differs = same < user.len() && same < rest.len();
        let less = match (user.get(same), rest.get(same)) {
            (Some(stored), Some(wanted)) => stored < wanted,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => u64::from_le_bytes(*trailer) > target.trailer,
        };
        if !less {
            break;
        }
        at = entry.next;
    }
    known
}

/// The handle in an index value; `before` is that of the entry before, where the value builds on it.
fn handle_in(value: &[u8], before: Option<Handle>) -> Option<Handle> {
    let mut reader = Reader::new(value);
    match before {
        None => Handle::read(&mut reader),
        Some(before) => before.follower(read_signed(&mut reader)?),
    }
}
