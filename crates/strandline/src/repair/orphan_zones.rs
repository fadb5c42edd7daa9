//! Zones without a manifest: what they hold by themselves.
//!
//! Nothing says which of the records still count. Some were superseded or deleted by what was merged away since, some were
//! cut off by an earlier recovery and never acknowledged. Their numbers give the newest; the rest is the caller's doubt.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{LINE, PmOffset, Seq};
use pmem::Region;
use pool::Pool;
use sst::RangeDelete;

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
        for no in 0..geometry.zones() {
            let (start, len) = (geometry.zone_at(no), geometry.zone_len());
            if (start + len).get() > region.len() {
                break;
            }
            let Some(header) = granted(&media, no) else { continue };
            let _first = media.set_zone(no, header.incarnation(), header.base_seq);
            let records = records.entry(header.keyspace).or_default();
            let mut at = start;
            while at < start + len {
                let Some((head, bytes)) = media.verified(at) else {
                    at += LINE as u64;
                    continue;
                };
                records.add(at, &head, bytes);
                at += head.len() as u64;
            }
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

impl Records {
    fn add(&mut self, at: PmOffset, head: &RecordHead, bytes: &[u8]) {
        let key = head.key(bytes);
        match head.kind {
            _ if head.void => {}
            Kind::Blank => {}
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
