//! Tables and value files in persistent memory: each is one extent of the pool, at most a zone long, so that they free whole zones,
//! as records do. Either kind has a room of its own; an extent is taken, written, read and let go in the same way, whatever lies in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::planted::{self, Bug};
use base::{Error, PmOffset, Result};
use pmem::Site;
use pool::Extent;
use sst::{Compression, WriterOptions};

use super::names::FileName;
use super::room::Writes;
use super::space::TableSpace;
use crate::record::extent::ExtentHold;
use crate::record::store::Media;
use crate::record::zone::PendingFree;

/// Of the share of value files, one of so many, and two zones at least, is for work that frees space there alone. It packs what is
/// live in some zones into fewer: the more there are at once, the less must be garbage.
const RELIEF_SHARE: u64 = 16;
const RELIEF_ZONES: u64 = 2;
/// No more than one of so many is kept for that.
const RELIEF_SHARE_MAX: u64 = 4;

/// What lies in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PmUse {
    Tables,
    Values,
}

/// The rooms of persistent memory that stand beside directories.
pub(crate) struct PmRooms {
    pub tables: Arc<PmRoom>,
    pub values: Arc<PmRoom>,
    /// Bytes at which a data block of a table there is cut.
    block_bytes: usize,
}

/// The shares of the pool that rooms may take, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PmPercent {
    pub tables: u32,
    pub values: u32,
}

/// Space of the pool that tables take, or value files, and its limits.
pub(crate) struct PmRoom {
    is_for: PmUse,
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    /// Bytes that may be taken by the options.
    share: u64,
    /// Bytes that may be taken now.
    limit: AtomicU64,
    /// Bytes that are taken, by [`share`].
    taken: AtomicU64,
    /// Bytes of the extents that are taken.
    bytes: AtomicU64,
    /// Of these, bytes that are on their way to files.
    leaving: AtomicU64,
    /// Their number, dropped ones with readers included.
    count: AtomicU64,
    /// Zones that must stay free.
    kept: AtomicU64,
}

/// Bytes on their way from persistent memory to files.
pub(crate) struct PmLeaving {
    room: Arc<PmRoom>,
    bytes: u64,
}

impl Drop for PmLeaving {
    fn drop(&mut self) {
        self.room.leaving.fetch_sub(self.bytes, Relaxed);
    }
}

impl PmRooms {
    /// Rooms of so many percent of the pool, with data blocks of `block_bytes`.
    pub(crate) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        percent: PmPercent,
        block_bytes: u32,
    ) -> PmRooms {
        let room = |is_for, percent| Arc::new(PmRoom::new(is_for, media, pending_free, percent));
        PmRooms {
            tables: room(PmUse::Tables, percent.tables),
            values: room(PmUse::Values, percent.values),
            block_bytes: block_bytes as usize,
        }
    }

    /// What a table looks like here that would elsewhere be as `options`. It is not compressed: what is read where it lies is
    /// what is stored.
    pub(crate) fn form(&self, options: WriterOptions) -> WriterOptions {
        let (compression, block_bytes) = (Compression::None, self.block_bytes);
        WriterOptions { compression, block_bytes, ..options }
    }

    /// Limits both together to `most` bytes, each to its part of that, and keeps so many zones free of them.
    pub(crate) fn restrict(&self, most: u64, kept: u64) {
        let both = u128::from(self.tables.share + self.values.share).max(1);
        for room in [&self.tables, &self.values] {
            room.restrict((u128::from(most) * u128::from(room.share) / both) as u64, kept);
        }
    }

    /// The room of what has this name elsewhere.
    pub(crate) fn room_of(&self, name: FileName) -> &Arc<PmRoom> {
        match name {
            FileName::Table(_) => &self.tables,
            FileName::Values(_) => &self.values,
        }
    }
}

impl PmRoom {
    fn new(
        is_for: PmUse,
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        percent: u32,
    ) -> PmRoom {
        PmRoom {
            is_for,
            media: Arc::clone(media),
            pending_free: Arc::clone(pending_free),
            share: media.pool.geometry().capacity() / 100 * u64::from(percent),
            limit: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            count: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    /// Bytes that nothing here may be longer than.
    pub(crate) fn len_max(&self) -> u64 {
        self.media.pool.geometry().zone_len()
    }

    /// Bytes that are taken; what fills more than half of a zone counts for all of it.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Bytes of the extents that are taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Of these, bytes that stay: all but those that are on their way to files.
    pub(crate) fn staying(&self) -> u64 {
        self.bytes().saturating_sub(self.leaving.load(Relaxed))
    }

    /// Counts `bytes` as on their way to files, as long as the result is kept.
    pub(crate) fn leave(self: &Arc<PmRoom>, bytes: u64) -> PmLeaving {
        self.leaving.fetch_add(bytes, Relaxed);
        PmLeaving { room: Arc::clone(self), bytes }
    }

    /// Number of what is here, with what was dropped and has readers.
    #[cfg(feature = "steps")]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Bytes that may be taken.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Whether so much more is taken than may be that some should leave: limits move a little all the time.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.taken() > self.limit() + self.share / 8
    }

    /// What an extent of `len` bytes counts for.
    pub(crate) fn counts(&self, len: u64) -> u64 {
        share(len, self.len_max())
    }

    /// Limits what may be taken to `most` bytes, and keeps so many zones free of it.
    pub(crate) fn restrict(&self, most: u64, kept: u64) {
        self.limit.store(self.share.min(most), Relaxed);
        self.kept.store(kept, Relaxed);
    }

    /// Bytes that may be taken for `writes`.
    fn most(&self, writes: Writes) -> u64 {
        let limit = self.limit();
        match (self.is_for, writes) {
            (PmUse::Values, Writes::Levels) => {
                let relief = (limit / RELIEF_SHARE).max(RELIEF_ZONES * self.len_max());
                limit - relief.min(limit / RELIEF_SHARE_MAX)
            }
            (PmUse::Values, Writes::Relief) | (PmUse::Tables, _) => limit,
        }
    }

    /// Zones that may be taken now.
    fn free_zones(&self) -> u64 {
        u64::from(self.media.pool.space().free_zones).saturating_sub(self.kept.load(Relaxed))
    }

    /// Whether there is room for `len` bytes in an extent now.
    pub(crate) fn has_room(&self, len: u64, writes: Writes) -> bool {
        self.taken() + self.counts(len) <= self.most(writes) && self.free_zones() > 0
    }

    /// Bytes of values that find room now, about, in extents that fill zones.
    pub(crate) fn left(&self, writes: Writes) -> u64 {
        let zones = self.most(writes).saturating_sub(self.taken()) / self.len_max();
        zones.min(self.free_zones()) * self.filled()
    }

    /// What so many bytes of values count for that fill zones.
    pub(crate) fn counts_packed(&self, len: u64) -> u64 {
        let (whole, rest) = (len / self.filled(), len % self.filled());
        whole * self.len_max() + if rest > 0 { self.counts(rest) } else { 0 }
    }

    /// Bytes of a zone that values fill: the next one may be too long for the rest.
    fn filled(&self) -> u64 {
        self.len_max() / 8 * 7
    }

    /// Makes `bytes` durable in an extent of their own; `None` if there is no room for them.
    pub(crate) fn write(self: &Arc<PmRoom>, bytes: &[u8], writes: Writes) -> Option<PmExtent> {
        let fenced_elsewhere = planted::is(Bug::PmTableFencedByInstaller);
        let (site, unfenced) = match self.is_for {
            PmUse::Tables => (Site::Table, planted::is(Bug::PmTableUnfenced)),
            PmUse::Values => (Site::Values, planted::is(Bug::PmValuesUnfenced)),
        };
        let taken = self.take(bytes.len() as u64, writes)?;
        let flight = self.media.region.copy_nt(site, taken.extent().at.get(), bytes);
        if !unfenced && !fenced_elsewhere {
            let _durable = self.media.region.fence(flight);
        }
        Some(taken)
    }

    fn take(self: &Arc<PmRoom>, len: u64, writes: Writes) -> Option<PmExtent> {
        if !self.has_room(len, writes) || len > self.len_max() {
            return None;
        }
        let pool = &self.media.pool;
        let hold = ExtentHold::take(pool, &self.pending_free, len)?;
        let mut taken = self.owned(hold.extent(), Some(hold));
        // Other threads may have taken space at the same time, so check again.
        let kept = self.kept.load(Relaxed);
        if self.taken() > self.most(writes) || u64::from(pool.space().free_zones) < kept {
            taken.hold.take().into_iter().for_each(|hold| hold.give_back_unwritten(pool));
            return None;
        }
        Some(taken)
    }

    /// Takes, at an open, an extent that the manifest names.
    pub(crate) fn claim(self: &Arc<PmRoom>, extent: Extent) -> Result<PmExtent> {
        let forgets = match self.is_for {
            PmUse::Tables => planted::is(Bug::ForgetPmTableExtent),
            PmUse::Values => planted::is(Bug::ForgetPmValuesExtent),
        };
        if forgets {
            return Ok(self.owned(extent, None));
        }
        let hold = ExtentHold::claim(&self.media.pool, &self.pending_free, extent)?;
        Ok(self.owned(extent, Some(hold)))
    }

    fn owned(self: &Arc<PmRoom>, extent: Extent, hold: Option<ExtentHold>) -> PmExtent {
        self.taken.fetch_add(self.counts(extent.len), Relaxed);
        self.bytes.fetch_add(extent.len, Relaxed);
        self.count.fetch_add(1, Relaxed);
        PmExtent { extent, hold, room: Arc::clone(self) }
    }

    /// The pool, as messages call it.
    pub(crate) fn pool(&self) -> PathBuf {
        self.media.region.describe().into()
    }

    /// What messages call what has number `id`.
    pub(crate) fn name(&self, id: u64, extent: Extent) -> String {
        let what = match self.is_for {
            PmUse::Tables => "table",
            PmUse::Values => "value file",
        };
        format!("{what} {id} at offset {} of {}", extent.at, self.media.region.describe())
    }

    /// What has number `id`: the first `len` bytes of `extent`, which `hold` keeps.
    pub(crate) fn open(
        &self,
        id: u64,
        extent: Extent,
        len: u64,
        hold: Option<Arc<TableSpace>>,
    ) -> Result<Arc<PmFile>> {
        let name = self.name(id, extent);
        let end = extent.at.checked_add(extent.len);
        if len > extent.len || end.is_none_or(|end| end.get() > self.media.region.len()) {
            return Err(Error::corruption(
                "open",
                format!(
                    "{name} does not lie in the pool; restore a copy of the pool, or save the rest with \
                     `strandline repair`"
                ),
            ));
        }
        let media = Arc::clone(&self.media);
        Ok(Arc::new(PmFile { media, at: extent.at, len, name: name.into(), _hold: hold }))
    }
}

/// The extent of a table or value file, counted among what its room has until it is dropped.
pub(crate) struct PmExtent {
    extent: Extent,
    hold: Option<ExtentHold>,
    room: Arc<PmRoom>,
}

impl PmExtent {
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Releases it without freeing the extent: an edit names it.
    pub(crate) fn leave(mut self) {
        self.hold.take().into_iter().for_each(ExtentHold::leave);
    }

    /// A planted bug: it is free although something lies in it.
    pub(crate) fn plant_free(&self) {
        self.hold.iter().for_each(ExtentHold::plant_free);
    }
}

impl Drop for PmExtent {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.room.counts(self.extent.len), Relaxed);
        self.room.bytes.fetch_sub(self.extent.len, Relaxed);
        self.room.count.fetch_sub(1, Relaxed);
    }
}

/// A table or value file in persistent memory: it is read like a file, but for data blocks and values, which stay where they are
/// ([`PlacedBlocks`](super::placed::PlacedBlocks), [`ValueFile`](super::value_file::ValueFile)).
pub(crate) struct PmFile {
    media: Arc<Media>,
    at: PmOffset,
    len: u64,
    name: PathBuf,
    _hold: Option<Arc<TableSpace>>,
}

impl PmFile {
    /// # Errors
    /// `Corruption`: it has not so many bytes.
    fn check(&self, at: u64, len: usize) -> Result<()> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(Error::corruption(
                "read",
                format!(
                    "{} has {} bytes, and {len} at {at} were asked for; save what is left with `strandline repair`",
                    self.name.display(),
                    self.len
                ),
            ));
        }
        Ok(())
    }

    /// Bytes of it, where they lie, with what keeps them there.
    ///
    /// # Errors
    /// As [`PmFile::check`].
    pub(super) fn lend(self: &Arc<PmFile>, at: u64, len: usize) -> Result<LentBytes> {
        self.check(at, len)?;
        Ok(LentBytes { file: Arc::clone(self), at, len })
    }

    /// Bytes of it, where they lie.
    ///
    /// # Errors
    /// As [`PmFile::check`].
    pub(super) fn read(&self, at: u64, len: usize) -> Result<&[u8]> {
        self.check(at, len)?;
        Ok(self.bytes(at, len))
    }

    fn bytes(&self, at: u64, len: usize) -> &[u8] {
        self.media.region.bytes((self.at + at).get(), len)
    }
}

/// Bytes of a table or value file in its place. They keep its extent (I-TREE-4).
pub(super) struct LentBytes {
    file: Arc<PmFile>,
    at: u64,
    len: usize,
}

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        self.file.bytes(self.at, self.len)
    }
}

impl ssd::Read for PmFile {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.check(at, out.len())?;
        out.copy_from_slice(self.bytes(at, out.len()));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.name
    }

    fn will_need(&self, at: u64, len: u64) {
        if at < self.len {
            let lines = (len as usize).div_ceil(base::LINE).clamp(1, 64);
            self.media.region.prefetch((self.at + at).get(), lines);
        }
    }
}

/// The bytes that `len` bytes in an extent count for, in zones of `zone_len`: a zone holds a whole number of extents of that
/// length, and each counts for its share of the zone.
pub(crate) fn share(len: u64, zone_len: u64) -> u64 {
    len.next_power_of_two().min(zone_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (len, expected) in [(1, 1), (1024, 1024), (1025, 2048), (2049, 4096), (4096, 4096)] {
            assert_eq!(share(len, 4096), expected, "{len}");
        }
    }
}
