//! Records by location: the leaf words that every index stores, and what they resolve to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use base::bytes::compare;
use base::checksum::{key_hash, mix, sum64};
use base::planted::{self, Bug};
use base::{AtomicSeq, Error, LINE, PmOffset, Result, Seq};
use pmem::{Owner, Region};
use pool::Pool;

use crate::record::format::{EXTENT_REF_LEN, ExtentRef, Kind, RecordHead};
use crate::record::short::ShortHeader;

/// A record's location as every index stores it: line number, length hint and key tag in 62 bits.
///
/// ```text
/// bits 0..40   line number of the record in the pool
/// bits 40..46  lines of the record; 0: 64 or more
/// bits 46..62  low bits of the key's hash
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf(pub u64);

/// Lines of a record that are sent for with many others at once.
const FIRST_LINES: usize = 4;
/// How many records before it is read the rest of a long one is sent for; see [`Media::prefetch_rest`].
pub(crate) const NEAR: usize = 2;

impl Leaf {
    #[inline]
    pub(crate) fn new(at: PmOffset, len: u64, key_hash: u64) -> Leaf {
        let lines = len / LINE as u64;
        let hint = if lines < 64 { lines } else { 0 };
        Leaf((at.get() / LINE as u64) | (hint << 40) | (key_hash & 0xffff) << 46)
    }

    /// Where the record is.
    #[inline]
    pub(crate) fn at(self) -> PmOffset {
        PmOffset::new((self.0 & ((1 << 40) - 1)) * LINE as u64)
    }

    /// Whether the record may belong to a key with this hash.
    #[inline]
    pub(crate) fn may_be(self, key_hash: u64) -> bool {
        self.0 >> 46 == key_hash & 0xffff
    }

    /// Whether both may belong to the same key.
    #[inline]
    pub(crate) fn same_tag(self, other: Leaf) -> bool {
        (self.0 ^ other.0) >> 46 == 0
    }

    /// Lines worth prefetching.
    #[inline]
    pub(crate) fn lines(self) -> usize {
        match self.0 >> 40 & 0x3f {
            0 => FIRST_LINES,
            lines => lines as usize,
        }
    }
}

/// What every record of a zone shares, kept in DRAM.
#[derive(Default)]
struct ZoneFact {
    /// Seed of the zone's checksums; 0 while the zone holds no records.
    seed: AtomicU64,
    base_seq: AtomicSeq,
}

/// The pool with what is needed to decode the records in it.
pub(crate) struct Media {
    pub pool: Pool,
    pub region: Arc<Region>,
    zones: Box<[ZoneFact]>,
    data_at: PmOffset,
    zone_shift: u32,
    /// Held while the store may write.
    owner: Mutex<Option<Owner>>,
}

/// A record that passed its checks, or was glanced at, as numbers, so that holders need not borrow the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub seq: Seq,
    pub kind: Kind,
    pub void: bool,
    pub at: PmOffset,
    key_at: u32,
    key_len: u32,
    value_len: u32,
    pub len: u32,
}

impl Entry {
    #[inline(always)]
    fn new(at: PmOffset, len: usize, brief: &ShortHeader) -> Entry {
        Entry {
            seq: brief.seq,
            kind: brief.kind,
            void: brief.void,
            at,
            key_at: brief.key_at,
            key_len: brief.key_len,
            value_len: brief.value_len,
            len: len as u32,
        }
    }

    /// Where it is; the tag is of no key.
    #[inline]
    pub(crate) fn leaf(&self) -> Leaf {
        Leaf::new(self.at, u64::from(self.len), 0)
    }

    /// Where its key stands.
    #[inline]
    pub(crate) fn key_place(&self) -> KeyPlace {
        KeyPlace { at: self.at + u64::from(self.key_at), len: self.key_len }
    }
}

/// Where a key stands in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace {
    at: PmOffset,
    len: u32,
}

impl Media {
    pub(crate) fn new(pool: Pool, region: Arc<Region>, owner: Option<Owner>) -> Media {
        let geometry = pool.geometry();
        let zones = (0..geometry.zones()).map(|_| ZoneFact::default()).collect();
        let data_at = geometry.zone_at(0);
        let zone_shift = geometry.zone_len().trailing_zeros();
        Media { pool, region, zones, data_at, zone_shift, owner: Mutex::new(owner) }
    }

    /// Lets others have the region: nothing of it is read or written any more.
    pub(crate) fn let_go(&self) {
        drop(self.owner.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.region.let_go();
    }

    /// Seed of the checksums of a zone's records, bound to the pool and the zone's incarnation.
    pub(crate) fn zone_seed(&self, incarnation: u64) -> u64 {
        let life = if planted::is(Bug::IgnoreIncarnation) { 0 } else { incarnation };
        mix(self.pool.id(), life) | 1
    }

    /// Announces that zone `no` holds records of `incarnation` from now on; tells whether it held others
    /// since the store was opened.
    pub(crate) fn set_zone(&self, no: u32, incarnation: u64, base_seq: Seq) -> bool {
        let fact = &self.zones[no as usize];
        fact.base_seq.store(base_seq, Relaxed);
        fact.seed.swap(self.zone_seed(incarnation), Relaxed) != 0
    }

    /// Records of zone `no` count from `base_seq` from now on. No reader has numbers of any of them yet.
    pub(crate) fn rebase(&self, no: u32, base_seq: Seq) {
        self.zones[no as usize].base_seq.store(base_seq, Relaxed);
    }

    /// What records of zone `no` count from.
    pub(crate) fn base_seq(&self, no: u32) -> Seq {
        self.zones[no as usize].base_seq.load(Relaxed)
    }

    /// Seed and base sequence for a record at `at`, if a zone with records is there.
    #[inline]
    pub(crate) fn place(&self, at: PmOffset) -> Option<(u64, Seq)> {
        let zone = at.checked_distance(self.data_at)? >> self.zone_shift;
        let fact = self.zones.get(usize::try_from(zone).ok()?)?;
        let seed = fact.seed.load(Relaxed);
        (seed != 0).then(|| (record_seed(seed, at), fact.base_seq.load(Relaxed)))
    }

    /// Bytes from `at` to the end of its zone.
    #[inline]
    fn room(&self, at: PmOffset) -> usize {
        let zone_len = 1_u64 << self.zone_shift;
        (zone_len - ((at - self.data_at) & (zone_len - 1))) as usize
    }

    /// Decodes the head of the record at `at` without checking its body.
    #[inline]
    pub(crate) fn head(&self, at: PmOffset) -> Option<(RecordHead, &[u8])> {
        let (seed, base_seq) = self.place(at)?;
        self.steady(at, || self.head_under(at, seed, base_seq))
    }

    /// What `read` makes of the record at `at`. Its first word changes under readers, once at most and in one piece, when
    /// its commit is given up ([`voided`](crate::record::format::voided)); `read` looks at it several times. Where it
    /// fails and the word is not what it was before, it looks again, at a word that changes no more. Where it fails and the
    /// word is the same before and behind, every look between saw that word too: it is the record that fails.
    #[inline(always)]
    fn steady<T>(&self, at: PmOffset, read: impl Fn() -> Option<T>) -> Option<T> {
        if !at.is_aligned(LINE as u64) {
            return None;
        }
        let mut word = self.region.load_u64(at.get());
        // One place that calls `read`, so that it is inlined there.
        loop {
            if let Some(found) = read() {
                return Some(found);
            }
            let seen = std::mem::replace(&mut word, self.region.load_u64(at.get()));
            if seen == word {
                return None;
            }
        }
    }

    #[inline]
    fn verified_with(&self, at: PmOffset, seed: u64, base_seq: Seq) -> Option<(RecordHead, &[u8])> {
        self.steady(at, || {
            let (head, bytes) = self.head_under(at, seed, base_seq)?;
            head.verify(bytes, seed).then_some((head, bytes))
        })
    }

    #[inline]
    fn head_under(&self, at: PmOffset, seed: u64, base_seq: Seq) -> Option<(RecordHead, &[u8])> {
        let head = RecordHead::decode(self.region.bytes(at.get(), LINE), seed, base_seq)?;
        let len = head.len();
        (len <= self.room(at)).then(|| (head, self.region.bytes(at.get(), len)))
    }

    /// The record at `at` if its checksum holds.
    #[inline]
    pub(crate) fn verified(&self, at: PmOffset) -> Option<(RecordHead, &[u8])> {
        let (seed, base_seq) = self.place(at)?;
        self.verified_with(at, seed, base_seq)
    }

    /// The same if the zone had this `incarnation`; sequence numbers in it mean nothing.
    pub(crate) fn verified_under(
        &self,
        at: PmOffset,
        incarnation: u64,
    ) -> Option<(RecordHead, &[u8])> {
        // What was published lies at most 32 bits before a record's number.
        const ANY_BASE: Seq = Seq::new(1 << 40);
        let seed = record_seed(self.zone_seed(incarnation), at);
        self.verified_with(at, seed, ANY_BASE)
    }

    /// The record that an index names: damage is an error.
    #[inline(always)]
    pub(crate) fn entry(&self, leaf: Leaf) -> Result<Entry> {
        match self.common_entry(leaf, ShortHeader::verified) {
            Some(entry) => Ok(entry),
            None => self.any_entry(leaf),
        }
    }

    /// As [`Media::entry`], for those who pass a location on: of a put of 5 to 63 lines in the common form the
    /// head's check and the tag of its key are enough, and its value is not read. Who drops a version, or copies a
    /// record, calls [`Media::recheck`] first.
    #[inline]
    pub(crate) fn header_checked(&self, leaf: Leaf) -> Result<Entry> {
        if leaf.lines() <= FIRST_LINES {
            return self.entry(leaf);
        }
        let glanced = self.common_entry(leaf, ShortHeader::glanced);
        match glanced.filter(|entry| leaf.may_be(hash(self.key(entry)))) {
            Some(entry) => Ok(entry),
            None => self.entry(leaf),
        }
    }

    /// The record of an entry, all of it checked.
    ///
    /// # Errors
    /// `Corruption`: it is damaged.
    pub(crate) fn recheck(&self, entry: &Entry) -> Result<Entry> {
        self.entry(entry.leaf())
    }

    /// The record at a location, if it is of the form and length that most are and `decode` accepts its bytes; such a
    /// record is not void.
    #[inline(always)]
    pub(crate) fn common_entry(
        &self,
        leaf: Leaf,
        decode: impl Fn(&[u8], u64, Seq) -> Option<ShortHeader>,
    ) -> Option<Entry> {
        let at = leaf.at();
        let len = (leaf.0 >> 40 & 0x3f) as usize * LINE;
        let inside = at.get().wrapping_sub(self.data_at.get());
        let within = (inside & ((1 << self.zone_shift) - 1)) as usize;
        let fact = self.zones.get((inside >> self.zone_shift) as usize)?;
        if len == 0 || within + len > 1 << self.zone_shift {
            return None;
        }
        let seed = record_seed(fact.seed.load(Relaxed), at);
        let brief = decode(self.region.bytes(at.get(), len), seed, fact.base_seq.load(Relaxed))?;
        Some(Entry::new(at, len, &brief))
    }

    /// As [`Media::entry`], for records of any form and length.
    #[cold]
    fn any_entry(&self, leaf: Leaf) -> Result<Entry> {
        let (at, hint) = (leaf.at(), (leaf.0 >> 40 & 0x3f) as usize * LINE);
        let found = self.verified(at).filter(|(_, bytes)| hint == 0 || bytes.len() == hint);
        let (head, bytes) = found.ok_or_else(|| self.damaged(at))?;
        Ok(Entry::new(at, bytes.len(), &head.brief()))
    }

    /// Whether the key of `entry`, which comes behind `last` in key order, is another one; always where nothing is before it.
    ///
    /// # Errors
    /// `Corruption`: it is below that key, so one of them is not what it was sorted by.
    pub(crate) fn ascends(&self, last: Option<&Entry>, entry: &Entry) -> Result<bool> {
        let Some(last) = last else { return Ok(true) };
        match compare(self.key(last), self.key(entry)) {
            std::cmp::Ordering::Less => Ok(true),
            std::cmp::Ordering::Equal => Ok(false),
            std::cmp::Ordering::Greater => {
                self.recheck(last)?;
                self.recheck(entry)?;
                Err(self.damaged(entry.at))
            }
        }
    }

    /// The error for a record whose bytes fail their checks.
    #[cold]
    pub(crate) fn damaged(&self, at: PmOffset) -> Error {
        let zone = match self.pool.geometry().zone_of(at) {
            Some(zone) => format!(" in zone {zone}"),
            None => String::new(),
        };
        Error::corruption(
            "read",
            format!(
                "record at offset {at}{zone} of {} fails its checksum; `strandline check` lists what is \
                 affected",
                self.region.describe()
            ),
        )
        .with_place(self.region.describe(), at.get())
    }

    /// Key of a checked record.
    #[inline]
    pub(crate) fn key(&self, entry: &Entry) -> &[u8] {
        self.key_at(entry.key_place())
    }

    /// The key at a place that [`Entry::key_place`] told.
    #[inline]
    pub(crate) fn key_at(&self, place: KeyPlace) -> &[u8] {
        self.region.bytes(place.at.get(), place.len as usize)
    }

    /// Value of a checked record; a value in an extent is checked here.
    #[inline]
    pub(crate) fn value(&self, entry: &Entry) -> Result<&[u8]> {
        let value = self.stored_value(entry);
        if entry.kind == Kind::PutExtent { self.extent_value(entry.at, value) } else { Ok(value) }
    }

    /// The first `N` bytes of a value, which no checksum was asked about.
    pub(crate) fn value_front<const N: usize>(&self, entry: &Entry) -> Option<&[u8]> {
        let Some(extent) = self.extent_of(entry) else { return self.stored_value(entry).get(..N) };
        let end = extent.at.checked_add(extent.len)?;
        let within = extent.len >= N as u64 && end.get() <= self.region.len();
        within.then(|| self.region.bytes(extent.at.get(), N))
    }

    /// The bytes behind the key of a checked record: its value, or where its value is.
    pub(crate) fn stored_value(&self, entry: &Entry) -> &[u8] {
        let at = entry.at + u64::from(entry.key_at) + u64::from(entry.key_len);
        self.region.bytes(at.get(), entry.value_len as usize)
    }

    /// The extent that a checked record names, if it names one.
    pub(crate) fn extent_of(&self, entry: &Entry) -> Option<ExtentRef> {
        if entry.kind != Kind::PutExtent || entry.value_len as usize != EXTENT_REF_LEN {
            return None;
        }
        ExtentRef::decode(self.stored_value(entry))
    }

    /// The value outside a record that says `reference` of it.
    pub(crate) fn extent_value(&self, record_at: PmOffset, reference: &[u8]) -> Result<&[u8]> {
        let extent = ExtentRef::decode(reference)
            .filter(|extent| {
                extent.at.checked_add(extent.len).is_some_and(|end| end.get() <= self.region.len())
            })
            .ok_or_else(|| self.damaged(record_at))?;
        let bytes = self.region.bytes(extent.at.get(), extent.len as usize);
        if self.extent_sum(extent.at, bytes) != extent.sum {
            return Err(self.damaged(extent.at));
        }
        Ok(bytes)
    }

    /// Checksum of a value kept at `at` outside its record.
    pub(crate) fn extent_sum(&self, at: PmOffset, value: &[u8]) -> u64 {
        sum64(mix(self.pool.id(), at.get()), value)
    }

    /// Hints that the record of `leaf` is wanted soon.
    #[inline]
    pub(crate) fn prefetch(&self, leaf: Leaf) {
        self.region.prefetch(leaf.at().get(), leaf.lines().min(FIRST_LINES));
    }

    /// Hints that the record of `leaf` will be glanced at soon.
    #[inline]
    pub(crate) fn prefetch_glance(&self, leaf: Leaf) {
        let lines = leaf.lines();
        // Head and most keys are in the first line.
        self.region.prefetch(leaf.at().get(), if lines > FIRST_LINES { 1 } else { lines });
    }

    /// The same for what [`Media::prefetch`] leaves out of records of up to 63 lines: these are so many that they should
    /// come just before they are read.
    #[inline]
    pub(crate) fn prefetch_rest(&self, leaf: Leaf) {
        let lines = leaf.lines();
        if lines > FIRST_LINES {
            let rest = leaf.at() + (FIRST_LINES * LINE) as u64;
            self.region.prefetch(rest.get(), lines - FIRST_LINES);
        }
    }
}

/// Checksum seed of a record at `at` in a zone with `zone_seed`.
#[inline]
pub(crate) fn record_seed(zone_seed: u64, at: PmOffset) -> u64 {
    mix(zone_seed, at.get())
}

/// Leaf words resolve to keys for the memtable's index. A record that fails its checksum has none.
impl art::Records for Media {
    #[inline]
    fn key(&self, leaf: u64) -> Option<&[u8]> {
        self.verified(Leaf(leaf).at()).map(|(head, bytes)| head.key(bytes))
    }

    #[inline]
    fn seq(&self, leaf: u64) -> u64 {
        self.head(Leaf(leaf).at()).map_or(0, |(head, _)| head.seq.get())
    }
}

/// Hash of a key for tags and filters.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    key_hash(key)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use pmem::{Domain, Site, StoreMode};
    use pool::Format;

    use super::*;
    use crate::record::format::{Role, Segment, SeqForm, Shape, ZoneBinding, encode, voided};

    /// Makes the record at a place void at one of the looks that a reader takes at it, as the thread that gives its commit
    /// up may.
    struct Voids {
        at: AtomicU64,
        looks: AtomicU32,
    }

    impl Domain for Voids {
        fn store(&self, _: &Region, _: Site, _: u64, _: usize, _: StoreMode) {}

        fn flush(&self, _: &Region, _: Site, _: u64, _: usize) {}

        fn fence(&self, _: &Region, _: Site) {}

        fn load(&self, region: &Region, at: u64, _: usize) {
            if at != self.at.load(Relaxed) {
                return;
            }
            let left = self.looks.fetch_sub(1, Relaxed);
            if left == 0 {
                // Read without a look.
                self.at.store(0, Relaxed);
                let word = voided(region.load_u64(at));
                let _not_flushed = region.store_u64(Site::Void, at, word);
            }
        }
    }

    /// A reader decoded the head of a record, then its commit was given up on another thread, and the checksum was made over
    /// a head that was another one by then: a get failed with Corruption although nothing was damaged.
    #[test]
    fn a_record_that_becomes_void_while_it_is_read_is_not_damaged() {
        let one = Segment { place: 0, commit_records: 2, records: 2, index: 0, segments: 1 };
        let mut voided_at = 0;
        for (role, len) in [(Role::First(one), 90), (Role::Solo, 90), (Role::Solo, 20_000)] {
            for looks in 0..8 {
                let domain =
                    Arc::new(Voids { at: AtomicU64::new(0), looks: AtomicU32::new(looks) });
                let region = Region::heap(4 << 20, Some(Arc::clone(&domain) as Arc<dyn Domain>));
                let region = Arc::new(region.expect("memory"));
                let format = Format { zone_len: 64 << 10, ..Format::for_len(region.len()) };
                let pool = Pool::create(Arc::clone(&region), format, 5, b"").expect("pool");
                let media = Media::new(pool, Arc::clone(&region), None);
                media.set_zone(0, 9, Seq::new(1));
                let at = media.pool.geometry().zone_at(0);
                let (seed, base_seq) = media.place(at).expect("a zone with records");
                let shape = Shape { kind: Kind::Put, role, key_len: 3, value_len: len };
                let mut bytes = Vec::new();
                let place = ZoneBinding { seed, base_seq, form: SeqForm::Narrow };
                encode(&mut bytes, &shape, place, Seq::new(2), Seq::new(1), b"key", &vec![7; len]);
                let _not_flushed = region.copy(Site::Record, at.get(), &bytes);
                domain.at.store(at.get(), Relaxed);
                let entry = media.entry(Leaf::new(at, bytes.len() as u64, 0)).expect("not damaged");
                assert_eq!((entry.seq, media.key(&entry)), (Seq::new(2), &b"key"[..]));
                let head = media.verified(at).expect("nor here").0;
                voided_at += u32::from(head.void);
            }
        }
        assert!(voided_at >= 12, "{voided_at}");
    }
}
