//! The zones and extents that change streams hold.
//!
//! A zone is held from the moment that it stands ready. Once it is filled, the newest number reserved by then where it was filled
//! bounds what is in it: when all streams have passed that, it is let go. So no zone is looked into to find out whether it may go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use base::planted::{self, Bug};
use base::{PmOffset, Seq};

use crate::keyspace::write_head::{Filled, WriteHead};
use crate::record::extent::ExtentHold;
use crate::record::zone::{StreamHold, Zone};
use crate::ring::sequencer::Sequencer;
use crate::stream::kept::staged::{CommitNumbers, KeptLarge, StagedSegment, ZoneReading};

/// A zone that streams hold.
pub(crate) struct KeptZone {
    hold: StreamHold,
    /// The keyspace of its records.
    pub keyspace: u32,
    /// What is behind this place never counts: an open cut it off.
    pub counts_to: PmOffset,
}

impl KeptZone {
    /// A zone whose records count up to `counts_to`.
    pub(crate) fn new(zone: &Arc<Zone>, keyspace: u32, counts_to: PmOffset) -> KeptZone {
        KeptZone { hold: StreamHold::begin(zone), keyspace, counts_to }
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.hold
    }

    fn len(&self) -> u64 {
        self.hold.end - self.hold.start
    }
}

/// The extent of a value, which is in a commit that ends with this number.
struct KeptExtent {
    hold: Arc<ExtentHold>,
    end: Seq,
}

impl KeptExtent {
    fn len(&self) -> u64 {
        self.hold.extent().len
    }

    /// Whether nothing but streams holds it.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.hold) == 1
    }
}

/// What is held up to a commit's end, and how long it is.
struct HeldPiece {
    upto: Seq,
    len: u64,
    /// Nothing but streams needs it.
    alone: bool,
}

/// One that is filled, or to be filled.
struct OpenZone {
    zone: Arc<KeptZone>,
    /// Not held: a store is closed when no View holds its write heads.
    head: Weak<WriteHead>,
}

impl OpenZone {
    fn filled(&self, sequencer: &Sequencer) -> Filled {
        let head = self.head.upgrade();
        let pass = sequencer.enter_to_switch();
        match &head {
            Some(head) => head.filled(&pass, self.zone.zone()),
            // Its subrange is gone, and no View is left that was filled there.
            None => Filled::Wholly(pass.next_seq() - 1),
        }
    }
}

/// One that takes no more records.
struct FullZone {
    zone: Arc<KeptZone>,
    /// Nothing in it is newer.
    upto: Seq,
    reading: ZoneReading,
}

impl FullZone {
    /// What to read of it, if its records are found in it.
    fn part(&self) -> Option<ZonePart> {
        let whole = ZonePart::of(&self.zone, self.zone.counts_to);
        match &self.reading {
            ZoneReading::Order => Some(whole),
            ZoneReading::Adopt { number, at, .. } => {
                let reading = self.reading.clone();
                Some(ZonePart { base_seq: *number, start: *at, reading, ..whole })
            }
            ZoneReading::Elsewhere => None,
        }
    }
}

/// What to read of a zone. It does not hold the zone: who reads does, for as long as that takes.
pub(crate) struct ZonePart {
    pub zone: Weak<KeptZone>,
    pub no: u32,
    pub incarnation: u64,
    pub keyspace: u32,
    pub base_seq: Seq,
    pub start: PmOffset,
    pub end: PmOffset,
    pub reading: ZoneReading,
}

impl ZonePart {
    fn of(kept: &Arc<KeptZone>, end: PmOffset) -> ZonePart {
        let zone = kept.zone();
        ZonePart {
            zone: Arc::downgrade(kept),
            no: zone.no,
            incarnation: zone.incarnation,
            keyspace: kept.keyspace,
            base_seq: zone.base_seq,
            start: zone.start,
            end,
            reading: ZoneReading::Order,
        }
    }
}

/// What is let go; dropped outside of locks.
#[derive(Default)]
pub(crate) struct LetGo {
    zones: Vec<Arc<KeptZone>>,
    extents: BTreeMap<Seq, KeptExtent>,
}

impl LetGo {
    pub(crate) fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.extents.is_empty()
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct KeptZones {
    open: Vec<OpenZone>,
    /// Large commits on their way, some of them numbered by now.
    staged: Vec<Arc<KeptLarge>>,
    /// Ascending by `upto`.
    full: VecDeque<FullZone>,
    /// Of values, by the numbers of the records that name them. So the ends of their commits ascend, too.
    extents: BTreeMap<Seq, KeptExtent>,
    /// Bytes of these.
    extent_bytes: u64,
    /// Zones and extents that came since the last [`KeptZones::look`].
    unlooked: usize,
}

/// There is a look where so many pieces have come for each zone that is being filled: so the cost of one that is granted does not grow
/// with the number of subranges.
const PIECES_SHARE: usize = 8;

impl KeptZones {
    /// Holds a zone that stands ready at `head`, or did.
    pub(crate) fn open(&mut self, zone: KeptZone, head: &Arc<WriteHead>) {
        self.unlooked += 1;
        self.open.push(OpenZone { zone: Arc::new(zone), head: Arc::downgrade(head) });
    }

    /// Holds a zone that takes no more records. Its newest has number `upto`, or an older one.
    pub(crate) fn full(&mut self, zone: Arc<KeptZone>, upto: Seq) {
        self.add_full(FullZone { zone, upto, reading: ZoneReading::Order });
    }

    fn add_full(&mut self, full: FullZone) {
        // Nearly always it is the newest.
        let behind = self.full.iter().rev().take_while(|each| each.upto > full.upto).count();
        self.full.insert(self.full.len() - behind, full);
    }

    /// Holds the zones of a large commit that has no number yet.
    pub(crate) fn stage(&mut self, large: &Arc<KeptLarge>) {
        self.staged.push(Arc::clone(large));
    }

    /// Lets go of a large commit that never got a number.
    pub(crate) fn let_staged_go(&mut self, large: &Arc<KeptLarge>) -> LetGo {
        let at = self.staged.iter().position(|each| Arc::ptr_eq(each, large));
        let gone = at.map(|at| self.staged.swap_remove(at));
        let zones = gone.iter().flat_map(|large| &large.segments).flat_map(|each| &each.zones);
        LetGo { zones: zones.cloned().collect(), ..LetGo::default() }
    }

    /// Holds the zones of a segment of the large commit with these numbers.
    pub(crate) fn adopted(&mut self, segment: &StagedSegment, numbers: CommitNumbers) {
        for (zone, reading) in segment.reading(numbers.first) {
            self.add_full(FullZone { zone: Arc::clone(zone), upto: numbers.last, reading });
        }
    }

    /// Holds the extent of the value of record `seq`, whose commit ends with `end`.
    pub(crate) fn extent(&mut self, seq: Seq, end: Seq, hold: &Arc<ExtentHold>) {
        self.unlooked += 1;
        self.extent_bytes += hold.extent().len;
        self.extents.insert(seq, KeptExtent { hold: Arc::clone(hold), end });
    }

    /// The extent of the value of record `seq`.
    pub(crate) fn extent_of(&self, seq: Seq) -> Option<Arc<ExtentHold>> {
        self.extents.get(&seq).map(|kept| Arc::clone(&kept.hold))
    }

    /// Zones that are filled now take no more. Tells what is reserved by now in those that are being filled.
    pub(crate) fn look(&mut self, sequencer: &Sequencer) -> Vec<ZonePart> {
        self.unlooked = 0;
        let (mut filled, mut parts) = (Vec::new(), Vec::new());
        self.open.retain(|open| {
            match open.filled(sequencer) {
                Filled::Nothing => {}
                Filled::Upto(end) => parts.push(ZonePart::of(&open.zone, end)),
                Filled::Wholly(upto) => {
                    filled.push((Arc::clone(&open.zone), upto));
                    return false;
                }
            }
            true
        });
        filled.into_iter().for_each(|(zone, upto)| self.full(zone, upto));
        let numbered = self.staged.extract_if(.., |large| large.numbers().is_some());
        for large in numbered.collect::<Vec<_>>() {
            if let Some(numbers) = large.numbers() {
                large.segments.iter().for_each(|segment| self.adopted(segment, numbers));
            }
        }
        parts
    }

    /// Whether enough has come since the last look.
    pub(crate) fn is_look_due(&self) -> bool {
        self.unlooked * PIECES_SHARE >= self.open.len()
    }

    /// What there is to read behind `passed`: of zones that are being filled what is reserved by now.
    pub(crate) fn parts(&mut self, sequencer: &Sequencer, passed: Seq) -> Vec<ZonePart> {
        let mut parts = self.look(sequencer);
        let behind = self.full.range(self.first_behind(passed)..);
        parts.extend(behind.filter_map(FullZone::part));
        parts
    }

    fn first_behind(&self, passed: Seq) -> usize {
        self.full.partition_point(|each| each.upto <= passed)
    }

    /// Lets go of what holds nothing behind `passed`.
    pub(crate) fn let_go(&mut self, passed: Seq) -> LetGo {
        let passed = if planted::is(Bug::StreamZoneFreedEarly) { passed + 2 } else { passed };
        let first = self.first_behind(passed);
        let zones = self.full.drain(..first).map(|each| each.zone).collect();
        let behind = self.extents.split_off(&passed.next());
        let mut extents = std::mem::replace(&mut self.extents, behind);
        // A commit that is passed in part is given again, whole.
        while let Some(last) = extents.last_entry().filter(|last| last.get().end > passed) {
            let (seq, kept) = last.remove_entry();
            self.extents.insert(seq, kept);
        }
        self.extent_bytes -= extents.values().map(KeptExtent::len).sum::<u64>();
        LetGo { zones, extents }
    }

    /// Lets go of zone `no`, in which nothing is.
    pub(crate) fn let_unfilled_go(&mut self, no: u32) -> LetGo {
        let at = self.open.iter().position(|each| each.zone.zone().no == no);
        let zones = at.map(|at| self.open.swap_remove(at).zone).into_iter().collect();
        LetGo { zones, ..LetGo::default() }
    }

    /// Lets go of everything.
    pub(crate) fn let_all_go(&mut self) -> LetGo {
        let zones = self.zones().cloned().collect();
        let KeptZones { extents, .. } = std::mem::take(self);
        LetGo { zones, extents }
    }

    /// Bytes of what is in filled zones and in extents.
    pub(crate) fn bytes(&self) -> u64 {
        self.zone_bytes(self.full.len()) + self.extent_bytes
    }

    /// Bytes of what of that is behind `passed`.
    pub(crate) fn bytes_behind(&self, passed: Seq) -> u64 {
        let zones = self.full.len() - self.first_behind(passed);
        let extents = self.extents.range(passed.next()..).map(|(_, kept)| kept.len());
        self.zone_bytes(zones) + extents.sum::<u64>()
    }

    /// Bytes of so many of the filled zones, which are all equally long.
    fn zone_bytes(&self, zones: usize) -> u64 {
        zones as u64 * self.full.back().map_or(0, |each| each.zone.len())
    }

    /// What is held behind `passed`, the oldest first.
    fn pieces(&self, passed: Seq) -> impl Iterator<Item = HeldPiece> {
        let zones = self.full.range(self.first_behind(passed)..);
        let mut zones = zones
            .map(|each| {
                let alone = each.zone.zone().is_retired();
                HeldPiece { upto: each.upto, len: each.zone.len(), alone }
            })
            .peekable();
        let extents = self.extents.range(passed.next()..);
        let mut extents = extents
            .map(|(_, kept)| HeldPiece { upto: kept.end, len: kept.len(), alone: kept.is_alone() })
            .peekable();
        std::iter::from_fn(move || match (zones.peek(), extents.peek()) {
            (Some(zone), Some(extent)) if extent.upto < zone.upto => extents.next(),
            (Some(_), _) => zones.next(),
            (None, _) => extents.next(),
        })
    }

    /// The same of what nothing else in the store needs.
    pub(crate) fn held_behind(&self, passed: Seq) -> u64 {
        self.pieces(passed).filter(|piece| piece.alone).map(|piece| piece.len).sum()
    }

    /// The lowest number so that what is behind it, and behind `passed`, takes at most `bytes`: a number of a commit's end, at
    /// most `visible`. `None` if nothing more can be given up.
    pub(crate) fn give_up(&self, passed: Seq, bytes: u64, visible: Seq) -> Option<Seq> {
        let mut left = self.bytes_behind(passed);
        let mut least = None;
        for piece in self.pieces(passed).take_while(|piece| piece.upto <= visible) {
            left -= piece.len;
            least = Some(piece.upto);
            if left <= bytes {
                break;
            }
        }
        least
    }

    /// The lowest number so that letting go of what is not behind it makes `bytes` free, or as much as there is: a number as in
    /// [`KeptZones::give_up`].
    pub(crate) fn give_back(&self, bytes: u64, visible: Seq) -> Option<Seq> {
        let mut freed = 0;
        let mut last = None;
        let pieces = self.pieces(Seq::ZERO).take_while(|piece| piece.upto <= visible);
        for piece in pieces.filter(|piece| piece.alone) {
            freed += piece.len;
            last = Some(piece.upto);
            if freed >= bytes {
                break;
            }
        }
        last
    }

    fn zones(&self) -> impl Iterator<Item = &Arc<KeptZone>> {
        let open = self.open.iter().map(|each| &each.zone);
        let staged = self.staged.iter().flat_map(|large| &large.segments);
        let full = self.full.iter().map(|each| &each.zone);
        open.chain(staged.flat_map(|segment| &segment.zones)).chain(full)
    }

    /// All zones and extents.
    pub(crate) fn all(&self) -> (Vec<Arc<KeptZone>>, Vec<Arc<ExtentHold>>) {
        let zones = self.zones().cloned().collect();
        (zones, self.extents.values().map(|kept| Arc::clone(&kept.hold)).collect())
    }
}
