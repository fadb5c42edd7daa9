//! Tiers of files: directories of tables and value files on devices of different speed, fastest first. The store's own directory
//! is one of them, and the only one of most stores.
//!
//! **I-TIER-1** The manifest names a file by its tier and its number. Which tier a directory is stands in its file `OWNER`, so
//! the order of a list, or another path, changes nothing.
//! **I-TIER-2** A file that moves keeps its number. Its copy is whole, synced and compared, and its name durable, before the edit
//! that names it there; the one that it replaces goes as a dropped table does (I-TREE-4), or, of a value file, with its last reader (I-VALUE-4).
//! **I-TIER-3** A directory is given up only once no edit names a file in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ssd::Device;

use super::read_time::ReadTimes;
use super::tables::TableDir;

/// The store's own directory of tables.
pub(crate) const OWN: u32 = 0;

/// Whether new files go to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierUse {
    Open,
    /// What is there moves elsewhere: an option leaves it out.
    Leaving,
}

/// The tiers that files of a keyspace are to lie in, by their numbers: the store may not have some of them any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TierSet {
    /// Ascending; empty: all tiers.
    numbers: Arc<[u32]>,
}

impl TierSet {
    /// Those with these numbers; all, if it is empty.
    pub(crate) fn of(mut numbers: Vec<u32>) -> TierSet {
        numbers.sort_unstable();
        numbers.dedup();
        TierSet { numbers: numbers.into() }
    }

    /// Whether nothing is said of tiers.
    pub(crate) fn are_all(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers that are named.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// Whether files are to lie in this one.
    pub(crate) fn has(&self, no: u32) -> bool {
        self.are_all() || self.numbers.contains(&no)
    }
}

/// Where new files belong.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSite {
    /// In a tier so fast: 0 is the fastest.
    pub rank: usize,
    /// In one of these.
    pub among: TierSet,
}

/// Which directory a tier is, and how much it takes.
#[derive(Clone)]
pub(crate) struct TierDir {
    /// Names it in the manifest, and in the directory.
    pub no: u32,
    pub at: TableDir,
    /// Bytes that files there may take; 0: what the device has.
    pub size: u64,
    pub use_: TierUse,
    /// A device of its own; none: that of the store.
    pub device: Option<Arc<Device>>,
}

impl TierDir {
    /// The store's own directory, without a limit of its own.
    pub(crate) fn own(at: TableDir) -> TierDir {
        TierDir { no: OWN, at, size: 0, use_: TierUse::Open, device: None }
    }
}

/// A tier, and what its files take.
pub(crate) struct Tier {
    pub dir: TierDir,
    taken: AtomicU64,
    /// Of these, bytes of files that no edit names any more.
    going: AtomicU64,
    /// Bytes that files which are being written there will take besides.
    coming: AtomicU64,
    /// Bytes that the device had for files, present ones included, when it was asked last.
    device: AtomicU64,
    /// Bytes of files that were removed since the directory was synced for that.
    pub(super) removed: AtomicU64,
}

impl Tier {
    fn new(dir: TierDir) -> Tier {
        let (taken, removed) = (AtomicU64::new(0), AtomicU64::new(0));
        let (going, coming) = (AtomicU64::new(0), AtomicU64::new(0));
        Tier { dir, taken, going, coming, device: AtomicU64::new(u64::MAX), removed }
    }

    pub(crate) fn no(&self) -> u32 {
        self.dir.no
    }

    /// Whether new files go there.
    pub(crate) fn is_open(&self) -> bool {
        self.dir.use_ == TierUse::Open
    }

    /// Bytes that files there may take.
    pub(crate) fn limit(&self) -> u64 {
        let size = if self.dir.size == 0 { u64::MAX } else { self.dir.size };
        size.min(self.device.load(Relaxed))
    }

    /// Bytes that they take.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Of these, bytes of files that go with their last readers.
    pub(crate) fn going(&self) -> u64 {
        self.going.load(Relaxed)
    }

    /// Of the limit, bytes that no file has.
    pub(crate) fn left(&self) -> u64 {
        self.limit().saturating_sub(self.taken())
    }

    /// Bytes that files which are being written will take besides.
    pub(crate) fn coming(&self) -> u64 {
        self.coming.load(Relaxed)
    }

    /// Bytes that more files may take.
    pub(crate) fn unclaimed(&self) -> u64 {
        self.left().saturating_sub(self.coming())
    }

    /// Notes that a file being written will take so many bytes, if there is room for them.
    pub(super) fn try_claim(&self, len: u64) -> bool {
        let claim = |coming: u64| coming.checked_add(len).filter(|sum| *sum <= self.left());
        self.coming.fetch_update(Relaxed, Relaxed, claim).is_ok()
    }

    /// The same, whatever room there is.
    pub(super) fn claim(&self, len: u64) {
        self.coming.fetch_add(len, Relaxed);
    }

    /// Notes that it has taken some of them, or will not.
    pub(super) fn unclaim(&self, len: u64) {
        let before = self.coming.fetch_sub(len, Relaxed);
        debug_assert!(before >= len, "{len} bytes of {before} are claimed no more");
    }

    pub(super) fn count(&self, len: u64) {
        self.taken.fetch_add(len, Relaxed);
    }

    /// Notes that no edit names a file any more.
    pub(super) fn note_going(&self, len: u64) {
        self.going.fetch_add(len, Relaxed);
    }

    /// Notes that a file is gone; `going` bytes of it were noted before.
    pub(super) fn give_back(&self, len: u64, going: u64) {
        self.taken.fetch_sub(len, Relaxed);
        self.going.fetch_sub(going, Relaxed);
    }

    /// Notes how many bytes more the device takes: none, once a write there failed for want of room.
    pub(crate) fn note_device(&self, free: u64) {
        self.device.store(self.taken().saturating_add(free), Relaxed);
    }
}

/// All tiers of a store, fastest first.
pub(crate) struct Tiers {
    all: Vec<Tier>,
    /// How long reads of each take.
    pub times: Arc<ReadTimes>,
}

impl Tiers {
    pub(crate) fn new(dirs: Vec<TierDir>) -> Tiers {
        let times = Arc::new(ReadTimes::new(dirs.iter(), None));
        Tiers { all: dirs.into_iter().map(Tier::new).collect(), times }
    }

    /// The same, where those without a device of their own lie on this one.
    pub(crate) fn on(self, device: &Device) -> Tiers {
        let times = ReadTimes::new(self.all.iter().map(|tier| &tier.dir), Some(device));
        Tiers { times: Arc::new(times), ..self }
    }

    /// Fastest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Tier> {
        self.all.iter()
    }

    /// Whether there are several.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    pub(crate) fn get(&self, no: u32) -> Option<&Tier> {
        self.all.iter().find(|tier| tier.no() == no)
    }

    /// How fast a tier is among the others: 0 is the fastest. Of one that is not there, slower than all.
    pub(crate) fn rank(&self, no: u32) -> usize {
        self.all.iter().position(|tier| tier.no() == no).unwrap_or(self.all.len())
    }

    /// Of each tier, fastest first, whether files may go there that belong `among` some; nothing, if that says nothing: the store
    /// has left all of these.
    pub(crate) fn allowed(&self, among: &TierSet) -> Arc<[bool]> {
        let allowed: Vec<bool> =
            self.iter().map(|tier| tier.is_open() && among.has(tier.no())).collect();
        if among.are_all() || !allowed.contains(&true) { Arc::default() } else { allowed.into() }
    }

    /// The tier for a file of about `len` bytes: of those that it belongs among, that of its rank, or else the next slower one with
    /// room, or else the next faster one; then of all others in this order. Where none has room, the room of the store is
    /// asked, and refuses.
    pub(crate) fn place(&self, site: &FileSite, len: u64) -> &Tier {
        self.first(site, |tier| tier.unclaimed() >= len).unwrap_or_else(|full| full)
    }

    /// The same, where the file claims these bytes.
    pub(super) fn claim_place(&self, site: &FileSite, len: u64) -> &Tier {
        self.first(site, |tier| tier.try_claim(len)).unwrap_or_else(|full| {
            full.claim(len);
            full
        })
    }

    /// The first tier that takes a file; that where it goes all the same, if none does.
    fn first(&self, site: &FileSite, takes: impl Fn(&Tier) -> bool) -> Result<&Tier, &Tier> {
        let (faster, slower) = self.all.split_at(site.rank.min(self.all.len() - 1));
        let open = || slower.iter().chain(faster.iter().rev()).filter(|tier| tier.is_open());
        let own = || open().filter(|tier| site.among.has(tier.no()));
        let found = own().find(|tier| takes(tier)).or_else(|| open().find(|tier| takes(tier)));
        found.ok_or_else(|| own().chain(open()).next().unwrap_or(&slower[0]))
    }
}

/// Whether two names are of one directory or file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(sizes: &[(u64, TierUse)]) -> Tiers {
        let fs: Arc<dyn ssd::Fs> = Arc::new(ssd::Memory::default());
        let dir = |no: usize| TableDir { fs: Arc::clone(&fs), dir: format!("/{no}").into() };
        let all = sizes.iter().enumerate();
        let all = all.map(|(no, (size, use_))| TierDir {
            no: no as u32,
            at: dir(no),
            size: *size,
            use_: *use_,
            device: None,
        });
        Tiers::new(all.collect())
    }

    #[test]
    fn a_file_goes_where_it_belongs_or_to_the_next_with_room() {
        let (open, leaving) = (TierUse::Open, TierUse::Leaving);
        let tiers = tiers(&[(100, open), (0, leaving), (100, open), (100, open)]);
        let site = |rank, among: &[u32]| FileSite { rank, among: TierSet::of(among.to_vec()) };
        let place = |rank, len| tiers.place(&site(rank, &[]), len).no();
        assert_eq!((place(0, 100), place(2, 100), place(3, 100), place(9, 1)), (0, 2, 3, 3));
        assert_eq!(place(1, 1), 2, "one that is to be emptied takes nothing new");
        tiers.all[2].count(60);
        assert_eq!((place(2, 40), place(2, 41)), (2, 3));
        tiers.all[3].note_device(30);
        assert_eq!((place(2, 41), place(3, 31)), (0, 2), "then a faster one, the nearest first");
        assert_eq!(place(3, 101), 3, "no room anywhere");
        let among = |rank, all: &[u32], len| tiers.place(&site(rank, all), len).no();
        assert_eq!((among(0, &[2, 3], 1), among(3, &[0, 2], 1)), (2, 2), "its own come first");
        assert_eq!((among(0, &[2], 41), among(0, &[3], 31)), (0, 0), "they are full");
        assert_eq!((among(2, &[1], 1), among(2, &[7], 1)), (2, 2), "they are left");
        assert_eq!(*tiers.allowed(&TierSet::of(vec![0, 1, 7])), [true, false, false, false]);
        assert!(tiers.allowed(&TierSet::of(vec![1, 7])).is_empty());
        assert!(tiers.allowed(&TierSet::default()).is_empty());
        let claim = |len| tiers.claim_place(&site(0, &[]), len).no();
        assert_eq!((claim(90), place(0, 10), place(0, 11)), (0, 0, 2), "it is being written there");
        assert_eq!((claim(11), tiers.all[2].coming()), (2, 11));
        tiers.all[2].unclaim(11);
        tiers.all[0].unclaim(90);
        tiers.all[2].give_back(60, 0);
        assert_eq!((tiers.all[2].left(), tiers.all[1].limit()), (100, u64::MAX));
    }
}
