//! Where the bytes of a pool are, and which of them mean nothing.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base::PmOffset;
use pmem::{OpenMode, PoolFile, Prefault};
use pool::{HeaderState, Pool};

const LINE: u64 = 64;
const SLOTS: [Range<u64>; 2] = [0..128, 2048..2176];
const HEADER: Range<u64> = 0..4096;
/// Bytes of an edit's header, and where the length of its payload stands in it.
const EDIT_HEADER: u64 = 16;

/// What lies where in a pool.
pub struct Places {
    bytes: Vec<u8>,
    zone_table: Range<u64>,
    wear_table: Range<u64>,
    empty_zones: Vec<u32>,
    copied_deletes: Vec<Vec<u8>>,
    /// The log areas, the one in use first.
    areas: [Range<u64>; 2],
    /// The edits of the log, with their padding.
    pub edits: Vec<Range<u64>>,
    /// Bytes of their headers and payloads.
    edit_bytes: Vec<Range<u64>>,
    pub data: Range<u64>,
}

impl Places {
    pub fn of(pool: &Path, copied_deletes: &[Vec<u8>]) -> Places {
        let file = PoolFile::open(pool, OpenMode::ReadOnly).expect("pool file");
        let region = Arc::new(file.map(Prefault::Lazy).expect("map"));
        let (opened, replay) = Pool::open(region).expect("pool");
        let geometry = opened.geometry();
        let bytes = std::fs::read(pool).expect("read");
        let number = |at: u64| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at as usize..][..8]);
            u64::from_le_bytes(word)
        };
        let table = HEADER.end..HEADER.end + LINE * u64::from(geometry.zones());
        let len = geometry.manifest_len();
        let raw = |range: Range<PmOffset>| range.start.get()..range.end.get();
        let wear = raw(geometry.wear_table());
        let first = wear.end..wear.end + len;
        let second = first.end..first.end + len;
        let areas = if number(64) == 0 { [first, second] } else { [second, first] };
        let (mut at, mut edits, mut edit_bytes) = (areas[0].start, Vec::new(), Vec::new());
        for payload in &replay.payloads {
            let end = at + EDIT_HEADER + payload.len() as u64;
            edit_bytes.push(at..end);
            edits.push(at..end.next_multiple_of(LINE));
            at = end.next_multiple_of(LINE);
        }
        let empty = |no: &u32| {
            let first = &bytes[geometry.zone_at(*no).get() as usize..][..LINE as usize];
            opened.header(*no) == HeaderState::Free || first.iter().all(|byte| *byte == 0)
        };
        let empty_zones = (0..geometry.zones()).filter(empty).collect();
        let data = raw(geometry.data());
        Places {
            zone_table: table,
            wear_table: wear,
            empty_zones,
            copied_deletes: copied_deletes.to_vec(),
            areas,
            edits,
            edit_bytes,
            data,
            bytes,
        }
    }

    /// Bytes of superblock, zone table, wear table and log that are in use.
    pub fn metadata(&self) -> Vec<u64> {
        let used = |at: &u64| self.bytes[*at as usize] != 0;
        let log = self.edits.iter().cloned().flatten();
        let tables = self.zone_table.start..self.wear_table.end;
        SLOTS.into_iter().flatten().chain(tables.filter(used)).chain(log).collect()
    }

    /// Bytes of zones and extents that were ever written.
    pub fn used_data(&self) -> Vec<u64> {
        self.data.clone().filter(|at| !self.is_blank(*at)).collect()
    }

    /// Why a flip of the byte at `at` changes nothing, if it does not.
    pub fn harmless(&self, at: u64) -> Option<&'static str> {
        if HEADER.contains(&at) && !SLOTS.iter().any(|slot| slot.contains(&at)) {
            return Some("the header page beside the slots is not read");
        }
        let line = (at.saturating_sub(self.zone_table.start)) / LINE;
        if self.zone_table.contains(&at) && self.empty_zones.contains(&(line as u32)) {
            return Some("the line of a zone that holds nothing: nothing can be missing");
        }
        if self.wear_table.contains(&at) {
            return Some("a count of what was granted in a zone says nothing about records");
        }
        if self.areas[1].contains(&at) {
            return Some("the log area that is not in use is not read");
        }
        if self.areas[0].contains(&at) && !self.edits.iter().any(|edit| edit.contains(&at)) {
            return Some("behind the last edit there is nothing yet");
        }
        if self.edits.iter().any(|edit| edit.contains(&at))
            && !self.edit_bytes.iter().any(|edit| edit.contains(&at))
        {
            return Some("the padding of an edit is not read");
        }
        let areas_end = self.areas[0].end.max(self.areas[1].end);
        if (areas_end..self.data.start).contains(&at) || at >= self.data.end {
            return Some("what aligns the data, and what follows it, is not read");
        }
        if !self.data.contains(&at) {
            return None;
        }
        if self.is_blank(at) {
            return Some("a line of the data was never written");
        }
        // No key or value ends with a zero.
        let rest_of_line = at as usize..(at as usize + 1).next_multiple_of(LINE as usize);
        if self.bytes[rest_of_line].iter().all(|byte| *byte == 0) {
            return Some("zeroes behind a record or a value, up to the next line, are not read");
        }
        let line = (at / LINE * LINE) as usize;
        let line = &self.bytes[line..line + LINE as usize];
        let copied = |text: &Vec<u8>| line.windows(text.len()).any(|part| part == text);
        (self.copied_deletes.iter().any(copied))
            .then_some("a range deletion whose run has a copy is not read where it was written")
    }

    fn is_blank(&self, at: u64) -> bool {
        let line = (at / LINE * LINE) as usize;
        self.bytes[line..line + LINE as usize].iter().all(|byte| *byte == 0)
    }
}
