//! Zones without a manifest: what they hold by themselves.
//!
//! Nothing says which of the records still count. Some were superseded or deleted by what was merged away since, some were
//! cut off by an earlier recovery and never acknowledged. Their numbers give the newest; the rest is the caller's doubt.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{LINE, PmOffset, Seq};
use pmem::Region;
use pool::{Pool, ZoneHeader, ZoneKind};
use sst::RangeDelete;

use crate::record::adopt;
use crate::record::format::{Kind, RecordHead};
use crate::record::store::{Leaf, Media, hash};
use crate::recovery::open_runs::granted;
use crate::repair::salvage::{self, SalvagedEntries};

/// What zones hold of a keyspace.
#[derive(Default)]
struct Records {
    /// Key, number, whether it is an operand, and place of each.
    found: Vec<(Vec<u8>, Reverse<Seq>, bool, Leaf)>,
    deletes: Vec<RangeDelete>,
}

/// What was found in a pool.
pub(crate) struct OrphanZones {
    media: Arc<Media>,
    records: BTreeMap<u32, Records>,
}

impl OrphanZones {
    /// All records that check out in the zones of the pool in `region`; none if it cannot be told what its zones are.
    pub(crate) fn find(region: &Arc<Region>) -> Option<OrphanZones> {
        let all = Pool::remains(region).into_iter().map(|pool| OrphanZones::of(pool, region));
        let best = all.max_by_key(OrphanZones::count);
        best.filter(|zones| zones.count() > 0)
    }

    fn of(pool: Pool, region: &Arc<Region>) -> OrphanZones {
        let media = Media::new(pool, Arc::clone(region), None);
        let mut records: BTreeMap<u32, Records> = BTreeMap::new();
        let geometry = *media.pool.geometry();
        let zone_end = |no| geometry.zone_at(no) + geometry.zone_len();
        let inside = (0..geometry.zones()).take_while(|no| zone_end(*no).get() <= region.len());
        let headers: Vec<(u32, ZoneHeader)> =
            inside.filter_map(|no| granted(&media, no).map(|header| (no, header))).collect();
        let bases = staged_bases(&media, &headers);
        for (no, header) in headers {
            let base_seq = match header.kind {
                // Of what no record names it is not known whether it was ever acknowledged.
                ZoneKind::Staged => match bases.get(&(no, header.incarnation())) {
                    Some(base_seq) => *base_seq,
                    None if header.base_seq == Seq::ZERO => continue,
                    None => header.base_seq,
                },
                ZoneKind::Memtable | ZoneKind::Clean | ZoneKind::Cache => header.base_seq,
            };
            let _known = media.set_zone(no, header.incarnation(), base_seq);
            let records = records.entry(header.keyspace).or_default();
            each_record(&media, no, |at, head, bytes| records.add(at, head, bytes));
        }
        OrphanZones { media: Arc::new(media), records }
    }

    fn count(&self) -> usize {
        self.records.values().map(|records| records.found.len() + records.deletes.len()).sum()
    }

    /// What was found, by the number of the keyspace.
    pub(crate) fn spaces(self) -> impl Iterator<Item = (u32, Vec<RangeDelete>, SalvagedEntries)> {
        let media = self.media;
        self.records.into_iter().map(move |(id, Records { mut found, deletes })| {
            found.sort_unstable_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
            // Cleaning leaves a record in two places; and a value that operands came to has the number of the newest.
            found.dedup_by(|b, a| (&a.0, a.1) == (&b.0, b.1));
            let media = Arc::clone(&media);
            let entries = found
                .into_iter()
                .filter_map(move |(_, _, _, leaf)| salvage::record(&media, leaf).transpose());
            (id, deletes, Box::new(entries) as SalvagedEntries)
        })
    }
}

/// Calls `each` for every record of zone `no` that checks out.
fn each_record(media: &Media, no: u32, mut each: impl FnMut(PmOffset, &RecordHead, &[u8])) {
    let mut at = media.pool.geometry().zone_at(no);
    let end = at + media.pool.geometry().zone_len();
    while at < end {
        let Some((head, bytes)) = media.verified(at) else {
            at += LINE as u64;
            continue;
        };
        each(at, &head, bytes);
        at += head.len() as u64;
    }
}

/// What the records of staged zones count from, by zone and incarnation, as far as adopt records say it.
fn staged_bases(media: &Media, headers: &[(u32, ZoneHeader)]) -> BTreeMap<(u32, u64), Seq> {
    let mut bases = BTreeMap::new();
    for (no, header) in headers.iter().filter(|(_, header)| header.kind == ZoneKind::Staged) {
        let _first = media.set_zone(*no, header.incarnation(), header.base_seq);
        each_record(media, *no, |_, head, bytes| {
            if head.kind == Kind::Adopt && !head.void {
                let parts = adopt::decode(&bytes[head.key_at..][..head.value_len]);
                let named = parts.into_iter().flatten().map(|part| (part.zone, part.incarnation));
                bases.extend(named.map(|zone| (zone, head.number())));
            }
        });
    }
    bases
}

impl Records {
    fn add(&mut self, at: PmOffset, head: &RecordHead, bytes: &[u8]) {
        let key = head.key(bytes);
        match head.kind {
            _ if head.void => {}
            Kind::Blank | Kind::Adopt => {}
            Kind::RangeDelete => {
                let end = &bytes[head.key_at + head.key_len..][..head.value_len];
                let (begin, end) = (key.to_vec(), end.to_vec());
                self.deletes.push(RangeDelete { begin, end, seq: head.seq });
            }
            Kind::Put | Kind::PutExtent | Kind::Delete | Kind::Merge => {
                let leaf = Leaf::new(at, head.len() as u64, hash(key));
                let operand = head.kind == Kind::Merge;
                self.found.push((key.to_vec(), Reverse(head.seq), operand, leaf));
            }
        }
    }
}
