//! Byte streams laid over several extents of at most a zone each, so that a long run needs no long hole.

use std::sync::Arc;

use base::{Error, ErrorKind, LINE, PmOffset, Result};
use pmem::{Durable, Region, Site};
use pool::Extent;

use crate::record::extent::ExtentHold;
use crate::record::store::Media;
use crate::record::zone::PendingFree;

/// The extents of one stream. All but the last are exactly one zone long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub extents: Vec<Extent>,
    pub len: u64,
}

impl Pieces {
    /// Where byte `at` of the stream is.
    #[inline]
    pub(crate) fn offset(&self, zone_shift: u32, at: u64) -> PmOffset {
        self.extents[(at >> zone_shift) as usize].at + (at & ((1 << zone_shift) - 1))
    }

    /// Whether the extents can hold the stream: checked before a stored stream is relied on.
    pub(crate) fn is_sound(&self, zone_len: u64) -> bool {
        let mut left = self.len;
        for extent in &self.extents {
            let want = left.min(zone_len);
            if want == 0 || extent.len < want {
                return false;
            }
            left -= want;
        }
        left == 0
    }

    /// The whole stream, copied out.
    pub(crate) fn read(&self, region: &Region, zone_len: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len as usize);
        for extent in &self.extents {
            let part = (self.len - out.len() as u64).min(zone_len);
            out.extend_from_slice(region.bytes(extent.at.get(), part as usize));
        }
        out
    }
}

/// Writes a stream; whole lines at a time, extents taken as needed.
pub(crate) struct PieceWriter {
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    extents: Vec<ExtentHold>,
    /// Bytes written.
    len: u64,
    /// Bytes still to come, at most: the last extent need not be longer.
    expected: u64,
    room: u64,
}

impl PieceWriter {
    pub(crate) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        expected: u64,
    ) -> PieceWriter {
        PieceWriter {
            media: Arc::clone(media),
            pending_free: Arc::clone(pending_free),
            extents: Vec::new(),
            len: 0,
            expected,
            room: 0,
        }
    }

    /// Appends `bytes`, whole lines, durably: the next call may come from another thread, whose fence
    /// would not cover this one's stores (I-PM-3).
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Durable> {
        debug_assert!(bytes.len().is_multiple_of(LINE));
        let media = Arc::clone(&self.media);
        let mut flight = media.region.nothing_in_flight(Site::Run);
        while !bytes.is_empty() {
            if self.room == 0 {
                self.grow(bytes.len() as u64)?;
            }
            let len = self.room.min(bytes.len() as u64);
            let last = self.extents[self.extents.len() - 1].extent();
            let at = last.at + last.len - self.room;
            flight.join(media.region.copy_nt(Site::Run, at.get(), &bytes[..len as usize]));
            self.room -= len;
            self.len += len;
            self.expected = self.expected.saturating_sub(len);
            bytes = &bytes[len as usize..];
        }
        Ok(media.region.fence(flight))
    }

    fn grow(&mut self, at_least: u64) -> Result<()> {
        let geometry = self.media.pool.geometry();
        let want = self.expected.max(at_least).min(geometry.zone_len());
        let len = want.next_multiple_of(geometry.grain_len());
        let taken = ExtentHold::take(&self.media.pool, &self.pending_free, len);
        let hold = taken.ok_or_else(|| {
            Error::new(
                ErrorKind::NoSpace,
                "index",
                format!(
                    "{len} bytes for an index run in {}; make a larger pool (pm_size) or delete keys",
                    self.media.region.describe()
                ),
            )
        })?;
        self.room = hold.extent().len;
        self.extents.push(hold);
        Ok(())
    }

    /// Ends the stream; grains behind its end go back to the pool. Its extents belong to the caller, and are added to
    /// `space`.
    pub(crate) fn finish(mut self, space: &mut Vec<ExtentHold>) -> Pieces {
        let grain = self.media.pool.geometry().grain_len();
        if let Some(last) = self.extents.last_mut() {
            let used = (last.extent().len - self.room).next_multiple_of(grain);
            last.shorten(&self.media.pool, used);
        }
        let extents = self.extents.iter().map(ExtentHold::extent).collect();
        space.append(&mut self.extents);
        Pieces { extents, len: self.len }
    }
}
