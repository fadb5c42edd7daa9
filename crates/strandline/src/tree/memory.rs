//! Tables in persistent memory: each is one extent of the pool, at most a zone long, so that tables free whole zones, as
//! records do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::planted::{self, Bug};
use base::{Error, PmOffset, Result};
use pmem::Site;
use pool::Extent;
use sst::{Compression, WriterOptions};

use super::space::TableSpace;
use crate::record::extent::ExtentHold;
use crate::record::store::Media;
use crate::record::zone::PendingFree;

/// Space of the pool that tables take, and its limits.
pub(crate) struct PmTables {
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    /// Bytes that they may take by the options.
    share: u64,
    /// Bytes that they may take now.
    limit: AtomicU64,
    /// Bytes that they take, by [`share`].
    taken: AtomicU64,
    /// Their number, dropped ones with readers included.
    count: AtomicU64,
    /// Zones that must stay free.
    kept: AtomicU64,
    /// Bytes at which a data block of theirs is cut.
    block_bytes: usize,
}

impl PmTables {
    /// Tables that take at most `percent` of the pool, with data blocks of `block_bytes`.
    pub(crate) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        percent: u32,
        block_bytes: u32,
    ) -> PmTables {
        PmTables {
            media: Arc::clone(media),
            pending_free: Arc::clone(pending_free),
            share: media.pool.geometry().capacity() / 100 * u64::from(percent),
            limit: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            count: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            block_bytes: block_bytes as usize,
        }
    }

    /// What a table looks like here that would elsewhere be as `options`. It is not compressed: what is read where it lies is
    /// what is stored.
    pub(crate) fn form(&self, options: WriterOptions) -> WriterOptions {
        let (compression, block_bytes) = (Compression::None, self.block_bytes);
        WriterOptions { compression, block_bytes, ..options }
    }

    /// Bytes that no table may be longer than.
    pub(crate) fn len_max(&self) -> u64 {
        self.media.pool.geometry().zone_len()
    }

    /// Bytes that tables take.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Number of tables, dropped ones with readers included.
    #[cfg(feature = "steps")]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Bytes that tables may take.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Limits tables to `most` bytes, and keeps so many zones free of them.
    pub(crate) fn restrict(&self, most: u64, kept: u64) {
        self.limit.store(self.share.min(most), Relaxed);
        self.kept.store(kept, Relaxed);
    }

    /// Whether there is room for one more table of `len` bytes now.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        let share = share(len, self.len_max());
        let free = u64::from(self.media.pool.space().free_zones);
        self.taken() + share <= self.limit() && free > self.kept.load(Relaxed)
    }

    /// Makes `bytes` durable in an extent of their own; `None` if there is no room for them.
    pub(crate) fn write(self: &Arc<PmTables>, bytes: &[u8]) -> Option<PmExtent> {
        let unfenced = planted::is(Bug::PmTableUnfenced);
        let fenced_elsewhere = planted::is(Bug::PmTableFencedByInstaller);
        let taken = self.take(bytes.len() as u64)?;
        let flight = self.media.region.copy_nt(Site::Table, taken.extent().at.get(), bytes);
        if !unfenced && !fenced_elsewhere {
            let _durable = self.media.region.fence(flight);
        }
        Some(taken)
    }

    fn take(self: &Arc<PmTables>, len: u64) -> Option<PmExtent> {
        if !self.has_room(len) || len > self.len_max() {
            return None;
        }
        let pool = &self.media.pool;
        let hold = ExtentHold::take(pool, &self.pending_free, len)?;
        let mut taken = self.owned(hold.extent(), Some(hold));
        // Other threads may have taken space at the same time, so check again.
        let kept = self.kept.load(Relaxed);
        if self.taken() > self.limit() || u64::from(pool.space().free_zones) < kept {
            taken.hold.take().into_iter().for_each(|hold| hold.give_back_unwritten(pool));
            return None;
        }
        Some(taken)
    }

    /// Takes, at an open, the extent of a table that the manifest names.
    pub(crate) fn claim(self: &Arc<PmTables>, extent: Extent) -> Result<PmExtent> {
        if planted::is(Bug::ForgetPmTableExtent) {
            return Ok(self.owned(extent, None));
        }
        let hold = ExtentHold::claim(&self.media.pool, &self.pending_free, extent)?;
        Ok(self.owned(extent, Some(hold)))
    }

    fn owned(self: &Arc<PmTables>, extent: Extent, hold: Option<ExtentHold>) -> PmExtent {
        self.taken.fetch_add(share(extent.len, self.len_max()), Relaxed);
        self.count.fetch_add(1, Relaxed);
        PmExtent { extent, hold, memory: Arc::clone(self) }
    }

    /// The pool, as messages call it.
    pub(crate) fn pool(&self) -> PathBuf {
        self.media.region.describe().into()
    }

    /// Table `id`, the first `len` bytes of `extent`, which `hold` keeps.
    pub(crate) fn open(
        &self,
        id: u64,
        extent: Extent,
        len: u64,
        hold: Option<Arc<TableSpace>>,
    ) -> Result<Arc<PmFile>> {
        let name =
            format!("table {id} at offset {} of {}", extent.at, self.media.region.describe());
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

/// The extent of a table, counted among what tables take until it is dropped.
pub(crate) struct PmExtent {
    extent: Extent,
    hold: Option<ExtentHold>,
    memory: Arc<PmTables>,
}

impl PmExtent {
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Releases it without freeing the extent: an edit names it.
    pub(crate) fn leave(mut self) {
        self.hold.take().into_iter().for_each(ExtentHold::leave);
    }

    /// A planted bug: it is free although a table lies in it.
    pub(crate) fn plant_free(&self) {
        self.hold.iter().for_each(ExtentHold::plant_free);
    }
}

impl Drop for PmExtent {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(share(self.extent.len, self.memory.len_max()), Relaxed);
        self.memory.count.fetch_sub(1, Relaxed);
    }
}

/// A table in persistent memory: it is read like a file, but for its data blocks, which stay where they are
/// ([`PlacedBlocks`](super::placed::PlacedBlocks)).
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
    pub(super) fn check(&self, at: u64, len: usize) -> Result<()> {
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

    /// Bytes of it, where they lie.
    pub(super) fn bytes(&self, at: u64, len: usize) -> &[u8] {
        self.media.region.bytes((self.at + at).get(), len)
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

/// The bytes that a table of `len` bytes counts for, in zones of `zone_len`: a zone holds a whole number of extents of that
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
