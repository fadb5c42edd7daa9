//! Tables in persistent memory: each is one extent of the pool, at most a zone long, so that whole zones come free with
//! tables as they do with records. They are read as files are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::Relaxed};

use base::planted::{self, Bug};
use base::{Error, Result};
use pmem::Site;
use pool::Extent;

use crate::compaction::placement;
use crate::media::Media;
use crate::memtable::zone::Graveyard;

/// What tables take of the pool, and may take.
pub(crate) struct PmTables {
    media: Arc<Media>,
    graveyard: Arc<Graveyard>,
    /// Bytes that they may take by the options.
    share: u64,
    /// Bytes that they may take as things are.
    limit: AtomicU64,
    /// Bytes that they take, by [`placement::share`].
    taken: AtomicU64,
    /// How many there are, those whose last reader has yet to leave included.
    count: AtomicU64,
    /// Zones that must stay free.
    kept: AtomicU64,
}

impl PmTables {
    /// Tables that take at most `percent` of the pool.
    pub(crate) fn new(media: &Arc<Media>, graveyard: &Arc<Graveyard>, percent: u32) -> PmTables {
        PmTables {
            media: Arc::clone(media),
            graveyard: Arc::clone(graveyard),
            share: media.pool.geometry().capacity() / 100 * u64::from(percent),
            limit: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            count: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        }
    }

    /// Bytes that no table may be longer than.
    pub(crate) fn len_max(&self) -> u64 {
        self.media.pool.geometry().zone_len()
    }

    /// Bytes that tables take.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Tables, those whose last reader has yet to leave included.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Bytes that tables may take.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Bytes that tables may take and do not.
    pub(crate) fn unused(&self) -> u64 {
        self.limit().saturating_sub(self.taken())
    }

    /// Has tables take no more than `most` bytes in all, and leave so many zones free that are needed now.
    pub(crate) fn restrict(&self, most: u64, kept: u64) {
        self.limit.store(self.share.min(most), Relaxed);
        self.kept.store(kept, Relaxed);
    }

    /// Whether one more table of `len` bytes may be had as things are.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        let share = placement::share(len, self.len_max());
        let free = u64::from(self.media.pool.space().free_zones);
        self.taken() + share <= self.limit() && free > self.kept.load(Relaxed)
    }

    /// Makes `bytes` durable in an extent of their own; `None` if there is no room for them.
    pub(crate) fn write(&self, bytes: &[u8]) -> Option<Extent> {
        let extent = self.take(bytes.len() as u64)?;
        let flight = self.media.region.copy_nt(Site::Table, extent.at, bytes);
        let elsewhere = planted::is(Bug::PmTableFencedByInstaller);
        if !planted::is(Bug::PmTableUnfenced) && !elsewhere {
            let _durable = self.media.region.fence(flight);
        }
        Some(extent)
    }

    fn take(&self, len: u64) -> Option<Extent> {
        if !self.has_room(len) || len > self.len_max() {
            return None;
        }
        let pool = &self.media.pool;
        let extent = pool.take_extent(len)?;
        self.add(extent);
        // Others may have taken some at the same time.
        let kept = self.kept.load(Relaxed);
        if self.taken() > self.limit() || u64::from(pool.space().free_zones) < kept {
            self.subtract(extent);
            pool.release_unwritten(extent);
            return None;
        }
        Some(extent)
    }

    /// Says, after an open, that a table lies in `extent`.
    pub(crate) fn claim(&self, extent: Extent) -> Result<()> {
        if !planted::is(Bug::ForgetPmTableExtent) {
            self.media.pool.claim_extent(extent)?;
        }
        self.add(extent);
        Ok(())
    }

    /// Gives the extent of a table back that nothing names and nobody reads.
    pub(crate) fn bury(&self, extent: Extent) {
        self.subtract(extent);
        self.graveyard.bury_extent(extent);
    }

    fn add(&self, extent: Extent) {
        self.taken.fetch_add(placement::share(extent.len, self.len_max()), Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn subtract(&self, extent: Extent) {
        self.taken.fetch_sub(placement::share(extent.len, self.len_max()), Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }

    /// The pool, as messages call it.
    pub(crate) fn pool(&self) -> PathBuf {
        self.media.region.describe().into()
    }

    /// The first `len` bytes of `extent`, which `hold` keeps, as table `id`.
    pub(crate) fn open(
        &self,
        (id, extent, len): (u64, Extent, u64),
        hold: Option<Arc<PmHold>>,
    ) -> Result<Arc<dyn ssd::Read>> {
        let name =
            format!("table {id} at offset {} of {}", extent.at, self.media.region.describe());
        let end = extent.at.checked_add(extent.len);
        if len > extent.len || end.is_none_or(|end| end > self.media.region.len()) {
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

/// What keeps an extent from being reused: a table has it, and whoever reads the table (I-TREE-4).
pub(crate) struct PmHold {
    extent: Extent,
    memory: Arc<PmTables>,
    dropped: AtomicBool,
}

impl PmHold {
    pub(crate) fn new(extent: Extent, memory: &Arc<PmTables>) -> Arc<PmHold> {
        Arc::new(PmHold { extent, memory: Arc::clone(memory), dropped: AtomicBool::new(false) })
    }

    /// Marks that no durable edit names the table.
    pub(crate) fn set_dropped(&self) {
        let first = !self.dropped.swap(true, Ordering::AcqRel);
        if first && frees_early() {
            self.memory.bury(self.extent);
        }
    }
}

impl Drop for PmHold {
    fn drop(&mut self) {
        if *self.dropped.get_mut() && !frees_early() {
            self.memory.bury(self.extent);
        }
    }
}

/// Planted bugs: an extent goes when its table is marked, not with the last reader.
fn frees_early() -> bool {
    planted::is(Bug::FreePmTableBeforeEdit) || planted::is(Bug::FreeMovedPmTable)
}

/// A table in persistent memory, as a file is read.
struct PmFile {
    media: Arc<Media>,
    at: u64,
    len: u64,
    name: PathBuf,
    _hold: Option<Arc<PmHold>>,
}

impl ssd::Read for PmFile {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::corruption(
                "read",
                format!(
                    "{} has {} bytes, and {len} at {at} were asked for; save what is left with `strandline repair`",
                    self.name.display(),
                    self.len
                ),
            ));
        }
        out.copy_from_slice(self.media.region.bytes(self.at + at, out.len()));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.name
    }

    fn will_need(&self, at: u64, len: u64) {
        self.media.region.prefetch(self.at + at, (len as usize).div_ceil(base::LINE).clamp(1, 64));
    }
}
