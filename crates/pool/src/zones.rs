//! Zone headers: one line each in the zone table, whose first word says whether it counts. The header stands
//! in the line twice, so that damage to one half hides nothing.
//!
//! Lines are read and written by words (I-PM-2), because a view may be printed while zones are granted.

use base::PmOffset;
use base::checksum::{mix, sum32};
use base::planted::{self, Bug};
use pmem::{Durable, InFlight, Region, Site};

use crate::geometry::{Geometry, HEADER_LEN, ZONE_LINE, ZONE_TABLE};
use crate::grains::ZoneUse;
use crate::pool::Pool;

const SUM_SEED: u64 = u64::from_le_bytes(*b"zoneline");
/// Distance between the two copies of a header.
const COPY: u64 = 32;
/// Upper bytes of the tag, so that a granted word is recognisable in a dump.
const TAG: u32 = 0x5A4E_4500;

/// What a zone is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneKind {
    /// Records in the order of their commits.
    Memtable,
    /// Records moved by cleaning.
    Clean,
    /// Copies of what lies elsewhere, which may go at any moment. No manifest knows it.
    Cache,
    /// Records that were written before their commit had a number.
    Staged,
}

/// Whose zone it is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneHeader {
    /// What it is filled with.
    pub kind: ZoneKind,
    /// The open in which it was granted.
    pub epoch: u32,
    /// The grant within that open.
    pub grant: u32,
    /// The keyspace it belongs to.
    pub keyspace: u32,
    /// The subrange it belongs to.
    pub subrange: u32,
    /// Sequence number that its records count from; of a staged zone 0, until [`Pool::set_bases`] says it.
    pub base_seq: base::Seq,
}

/// The epoch of the open that granted a zone of this incarnation.
pub fn granted_in(incarnation: u64) -> u32 {
    (incarnation >> 32) as u32
}

impl ZoneHeader {
    /// The zone's life, which no other grant ever has: epoch above, grant below.
    pub fn incarnation(&self) -> u64 {
        u64::from(self.epoch) << 32 | u64::from(self.grant)
    }
}

/// What a zone's line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    /// Its word is zero.
    Free,
    /// Neither copy verifies: a grant that was cut short, or damage.
    Torn,
    /// It was granted so.
    Granted(ZoneHeader),
}

/// What [`Pool::sweep`] found and cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Granted zones without a claim.
    pub granted: u32,
    /// Torn headers.
    pub torn: u32,
}

impl Pool {
    /// What the line of zone `no` says. A zone that is being granted right now may look torn.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn header(&self, no: u32) -> HeaderState {
        let state = |copy| decode(self.id(), no, self.copy(no, copy));
        match state(0) {
            // The first word decides: without it the second copy is what a clear left behind.
            first @ (HeaderState::Granted(_) | HeaderState::Free) => first,
            HeaderState::Torn => match state(1) {
                granted @ HeaderState::Granted(_) => granted,
                HeaderState::Free | HeaderState::Torn => HeaderState::Torn,
            },
        }
    }

    /// Whether both copies of the header of zone `no` say the same.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn header_is_whole(&self, no: u32) -> bool {
        let [first, second] = self.copies(no).map(|words| decode(self.id(), no, words));
        first == second && first != HeaderState::Torn
    }

    /// Zones that are not granted and whose lines neither a clear nor a grant that was cut short leaves, up to the
    /// open `epoch`: blank ones, as before the first grant ever, and such as only damage leaves. With each the
    /// incarnations that its line names.
    pub fn odd_lines(&self, epoch: u32) -> impl Iterator<Item = (u32, [u64; 2])> {
        (0..self.geometry().zones()).filter_map(move |no| {
            if let HeaderState::Granted(_) = self.header(no) {
                return None;
            }
            let copies = self.copies(no);
            let blank = copies.as_flattened().iter().all(|word| *word == 0);
            let written = |[word, incarnation, ..]: &[u64; 4]| {
                let tag = *word as u32 ^ TAG;
                (*word == 0 || (1..=4).contains(&tag)) && incarnation >> 32 <= u64::from(epoch)
            };
            let odd = blank || !copies.iter().all(written);
            odd.then(|| (no, copies.map(|[_, incarnation, ..]| incarnation)))
        })
    }

    fn copies(&self, no: u32) -> [[u64; 4]; 2] {
        [self.copy(no, 0), self.copy(no, 1)]
    }

    fn copy(&self, no: u32, copy: u64) -> [u64; 4] {
        words(self.region(), self.geometry().line_at(no) + copy * COPY)
    }

    /// Makes the header of zone `no` durable, and counts that it will be filled. The zone must have been taken, and its
    /// word be clear.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn grant(&self, no: u32, header: &ZoneHeader) -> Durable {
        self.region().fence(self.write_grant(no, header))
    }

    /// As [`Pool::grant`], of several zones with one fence.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn grant_all(&self, grants: &[(u32, ZoneHeader)]) -> Durable {
        let nothing = self.region().nothing_in_flight(Site::ZoneGrant);
        let written = grants.iter().map(|(no, header)| self.write_grant(*no, header));
        self.region().fence(written.fold(nothing, InFlight::and))
    }

    fn write_grant(&self, no: u32, header: &ZoneHeader) -> InFlight<'_> {
        // The first word goes last; any mixture with an earlier header reads as torn.
        self.write_copy(Site::ZoneGrant, no, COPY, header);
        self.write_copy(Site::ZoneGrant, no, 0, header);
        let written = self.flush_line(Site::ZoneGrant, no);
        let mut state = self.space.lock();
        state.grains.wear_zone(no);
        let worn = self.save_wear(no..no + 1, |no| state.grains.wear(no));
        drop(state);
        written.and(worn)
    }

    /// Writes one copy of the header of zone `no`, the deciding word last. To be flushed with its line.
    fn write_copy(&self, site: Site, no: u32, copy: u64, header: &ZoneHeader) {
        let at = self.geometry().line_at(no) + copy;
        let words = encode(self.id(), no, header);
        for word in [1, 2, 3, 0] {
            let _line = self.region().store_u64(site, (at + 8 * word).get(), words[word as usize]);
        }
    }

    fn flush_line(&self, site: Site, no: u32) -> InFlight<'_> {
        self.region().flush_range(site, self.geometry().line_at(no).get(), ZONE_LINE as usize)
    }

    /// Makes it durable which numbers the records of staged zones count from. One copy of each line is whole at any
    /// moment, and says the old or the new one.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn set_bases(&self, bases: &[(u32, base::Seq)]) -> Durable {
        let site = Site::ZoneBase;
        let granted = bases.iter().filter_map(|(no, base_seq)| match self.header(*no) {
            HeaderState::Granted(header) => {
                Some((*no, ZoneHeader { base_seq: *base_seq, ..header }))
            }
            HeaderState::Free | HeaderState::Torn => None,
        });
        let headers: Vec<(u32, ZoneHeader)> = granted.collect();
        let mut durable = self.region().durable();
        for copy in [COPY, 0] {
            headers.iter().for_each(|(no, header)| self.write_copy(site, *no, copy, header));
            let nothing = self.region().nothing_in_flight(site);
            let lines = headers.iter().map(|(no, _)| self.flush_line(site, *no));
            durable = self.region().fence(lines.fold(nothing, InFlight::and));
        }
        durable
    }

    /// Makes it durable that zone `no` is not granted. Only then may the manifest forget the zone's
    /// incarnation, and [`Pool::release_zone`] follow.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn clear_zone(&self, no: u32) -> Durable {
        self.region().fence(clear(self.region(), self.geometry(), no))
    }

    /// Ends the claims after an open: clears the words of all zones without a claim, with one
    /// fence, and from now on hands out space (I-POOL-1). On a read-only region it only counts, zones of a cache aside, which a reader
    /// does not miss.
    pub fn sweep(&self) -> SweepReport {
        let leaks_stay = planted::is(Bug::SkipLeakSweep);
        let region = self.region();
        let mut report = SweepReport::default();
        let mut cleared: Option<InFlight<'_>> = None;
        for no in 0..self.geometry().zones() {
            if self.space.lock().grains.zone_use(no) == ZoneUse::Zone {
                continue;
            }
            match self.header(no) {
                HeaderState::Free if self.copies(no)[1][0] == 0 => continue,
                HeaderState::Free => {}
                HeaderState::Torn => report.torn += 1,
                HeaderState::Granted(ZoneHeader { kind: ZoneKind::Cache, .. })
                    if region.is_read_only() =>
                {
                    continue;
                }
                HeaderState::Granted(_) => report.granted += 1,
            }
            if leaks_stay {
                self.space.claim_zone(no);
            } else if !region.is_read_only() {
                let word = clear(region, self.geometry(), no);
                cleared = Some(match cleared {
                    Some(before) => before.and(word),
                    None => word,
                });
            }
        }
        if let Some(cleared) = cleared {
            let _durable = region.fence(cleared);
        }
        self.discard_free();
        self.space.lock().hand_out = !region.is_read_only();
        report
    }
}

/// Whether any line of the zone table was written by the pool `pool_id`.
pub(crate) fn stands_for(region: &Region, pool_id: u64) -> bool {
    // No zone is shorter than a KiB.
    let zones = region.len().saturating_sub(HEADER_LEN) >> 10;
    (0..u32::try_from(zones).unwrap_or(u32::MAX)).any(|no| {
        let at = ZONE_TABLE + u64::from(no) * ZONE_LINE;
        [at, at + COPY]
            .into_iter()
            .any(|at| matches!(decode(pool_id, no, words(region, at)), HeaderState::Granted(_)))
    })
}

fn words(region: &Region, at: PmOffset) -> [u64; 4] {
    let word = |word: u64| region.load_u64((at + word).get());
    [word(0), word(8), word(16), word(24)]
}

/// One 8-byte store decides (I-POOL-3); the second copy must not outlive it, or damage could bring it back.
fn clear<'r>(region: &'r Region, geometry: &Geometry, no: u32) -> InFlight<'r> {
    let at = geometry.line_at(no);
    let _same_line = region.store_u64(Site::ZoneClear, at.get(), 0);
    let _same_line = region.store_u64(Site::ZoneClear, (at + COPY).get(), 0);
    region.flush_range(Site::ZoneClear, at.get(), ZONE_LINE as usize)
}

fn checksum(pool_id: u64, no: u32, tag: u32, fields: [u64; 3]) -> u32 {
    let mut bytes = [0; 28];
    for (at, field) in fields.iter().enumerate() {
        bytes[8 * at..8 * at + 8].copy_from_slice(&field.to_le_bytes());
    }
    bytes[24..].copy_from_slice(&tag.to_le_bytes());
    sum32(mix(mix(SUM_SEED, pool_id), u64::from(no)), &bytes)
}

fn encode(pool_id: u64, no: u32, header: &ZoneHeader) -> [u64; 4] {
    let tag = TAG
        | match header.kind {
            ZoneKind::Memtable => 1,
            ZoneKind::Clean => 2,
            ZoneKind::Cache => 3,
            ZoneKind::Staged => 4,
        };
    let owner = u64::from(header.subrange) << 32 | u64::from(header.keyspace);
    let fields = [header.incarnation(), owner, header.base_seq.get()];
    let sum = checksum(pool_id, no, tag, fields);
    [u64::from(sum) << 32 | u64::from(tag), fields[0], fields[1], fields[2]]
}

fn decode(pool_id: u64, no: u32, words: [u64; 4]) -> HeaderState {
    let [word, incarnation, owner, base_seq] = words;
    if word == 0 {
        return HeaderState::Free;
    }
    let tag = word as u32;
    let kind = match tag ^ TAG {
        1 => ZoneKind::Memtable,
        2 => ZoneKind::Clean,
        3 => ZoneKind::Cache,
        4 => ZoneKind::Staged,
        _ => return HeaderState::Torn,
    };
    if (word >> 32) as u32 != checksum(pool_id, no, tag, [incarnation, owner, base_seq]) {
        return HeaderState::Torn;
    }
    HeaderState::Granted(ZoneHeader {
        kind,
        epoch: granted_in(incarnation),
        grant: incarnation as u32,
        keyspace: owner as u32,
        subrange: (owner >> 32) as u32,
        base_seq: base::Seq::new(base_seq),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: ZoneHeader = ZoneHeader {
        kind: ZoneKind::Clean,
        epoch: 3,
        grant: 4,
        keyspace: 5,
        subrange: 6,
        base_seq: base::Seq::new(7),
    };

    #[test]
    fn the_words_are_those_of_format_version_4() {
        let words = encode(1, 2, &SAMPLE);
        assert_eq!(words[1..], [0x3_0000_0004, 0x6_0000_0005, 7]);
        assert_eq!(words[0] as u32, 0x5A4E_4502);
        assert_eq!(words[0] >> 32, 3_636_392_286);
        assert_eq!(decode(1, 2, words), HeaderState::Granted(SAMPLE));
    }

    #[test]
    fn a_line_counts_for_its_own_pool_and_zone_only() {
        let words = encode(1, 2, &SAMPLE);
        assert_eq!(decode(2, 2, words), HeaderState::Torn);
        assert_eq!(decode(1, 3, words), HeaderState::Torn);
        for word in 0..4 {
            for bit in 0..64 {
                let mut torn = words;
                torn[word] ^= 1 << bit;
                assert_eq!(decode(1, 2, torn), HeaderState::Torn, "word {word}, bit {bit}");
            }
        }
    }
}
