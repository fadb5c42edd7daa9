//! A pool in words: what the superblock says, how full the log is, who has the zones, and how worn they are.

use std::fmt;

use crate::geometry::Geometry;
use crate::grains::ZoneUse;
use crate::objects::ObjectUse;
use crate::pool::Pool;
use crate::space::Space;
use crate::superblock::{self, Slot, Superblock};
use crate::wear::Wear;
use crate::zones::{HeaderState, ZoneKind};

const ROW: usize = 64;
/// The letters of the zone map and their meaning, in the order in which they are counted.
const LEGEND: [(char, &str); 13] = [
    ('M', "memtable"),
    ('C', "clean"),
    ('S', "staged"),
    ('t', "taken, not granted"),
    ('B', "cache"),
    ('m', "memtable, unclaimed"),
    ('b', "cache, unclaimed: a reader has none"),
    ('c', "clean, unclaimed"),
    ('s', "staged, unclaimed"),
    ('!', "torn"),
    ('#', "extents"),
    ('+', "part extents"),
    ('.', "free"),
];

/// A pool at one moment, as text; see [`Pool::view`].
#[derive(Clone, Debug)]
pub struct View {
    superblock: Superblock,
    slots: [Slot; 2],
    geometry: Geometry,
    log_used: u64,
    edits: u32,
    map: Vec<char>,
    space: Space,
    wear: Wear,
    objects: ObjectUse,
}

impl Pool {
    /// The pool's state as text: superblock, log, a map of the zones, free space, wear, volatile objects. Zones and
    /// log go on changing while they are looked at.
    pub fn view(&self) -> View {
        let log = self.peek_log();
        let area = log.superblock.log();
        View {
            superblock: log.superblock,
            // Slots change under the lock that is held here.
            slots: [superblock::read(self.region(), 0), superblock::read(self.region(), 1)],
            geometry: *self.geometry(),
            log_used: log.end - area.start,
            edits: log.next,
            map: (0..self.geometry().zones()).map(|no| self.letter(no)).collect(),
            space: self.space(),
            wear: self.wear(),
            objects: self.objects().usage(),
        }
    }

    fn letter(&self, no: u32) -> char {
        let claim = self.space.lock().grains.zone_use(no);
        match (self.header(no), claim) {
            (HeaderState::Torn, _) => '!',
            (HeaderState::Granted(header), claim) => match (header.kind, claim) {
                (ZoneKind::Memtable, ZoneUse::Zone) => 'M',
                (ZoneKind::Clean, ZoneUse::Zone) => 'C',
                (ZoneKind::Cache, ZoneUse::Zone) => 'B',
                (ZoneKind::Staged, ZoneUse::Zone) => 'S',
                (ZoneKind::Memtable, _) => 'm',
                (ZoneKind::Clean, _) => 'c',
                (ZoneKind::Cache, _) => 'b',
                (ZoneKind::Staged, _) => 's',
            },
            (HeaderState::Free, ZoneUse::Zone) => 't',
            (HeaderState::Free, ZoneUse::Extents) => '#',
            (HeaderState::Free, ZoneUse::Partial) => '+',
            (HeaderState::Free, ZoneUse::Free) => '.',
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Superblock { version, pool_id, generation, area, incarnation, .. } = self.superblock;
        let geometry = &self.geometry;
        writeln!(f, "pool {pool_id:016x}, format {version}, {} bytes", geometry.pool_len())?;
        writeln!(f, "  generation {generation}")?;
        for (name, slot) in ["A", "B"].iter().zip(&self.slots) {
            writeln!(f, "  slot {name}     {}", self.slot(slot))?;
        }
        writeln!(
            f,
            "log in area {area} at {}, incarnation {incarnation}\n  edits      {}\n  bytes      {} of {}",
            self.superblock.log().start,
            self.edits,
            self.log_used,
            self.superblock.areas.len
        )?;
        writeln!(
            f,
            "{} zones of {} bytes at {}, grains of {}",
            geometry.zones(),
            geometry.zone_len(),
            geometry.data().start,
            geometry.grain_len()
        )?;
        self.write_map(f)?;
        for (letter, meaning) in LEGEND {
            let count = self.map.iter().filter(|of| **of == letter).count();
            if count > 0 {
                writeln!(f, "  {letter} {count:>8} {meaning}")?;
            }
        }
        let Space { total, free, free_zones, .. } = self.space;
        writeln!(
            f,
            "space\n  free       {free} of {total} bytes\n  whole      {free_zones} zones"
        )?;
        let Wear { least, mean, most, unknown } = self.wear;
        writeln!(f, "wear")?;
        for (name, wear) in [("least", least), ("mean", mean), ("most", most)] {
            writeln!(f, "  {name:<6}     {wear:.1} fillings")?;
        }
        if unknown > 0 {
            writeln!(f, "  unknown    {unknown} zones, taken for the mean")?;
        }
        let ObjectUse { objects, bytes, taken } = self.objects;
        if taken > 0 {
            writeln!(f, "objects\n  count      {objects}\n  bytes      {bytes} of {taken} taken")?;
        }
        Ok(())
    }
}

impl View {
    fn slot(&self, slot: &Slot) -> String {
        match slot {
            Slot::Valid(content) if *content == self.superblock => "valid".into(),
            Slot::Valid(content) => format!("behind, generation {}", content.generation),
            _ => "damaged".into(),
        }
    }

    /// Rows of the map; of equal rows the first is shown, and `*` for the others.
    fn write_map(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<&[char]> = None;
        let mut starred = false;
        for (row, letters) in self.map.chunks(ROW).enumerate() {
            if before == Some(letters) {
                if !starred {
                    writeln!(f, "         *")?;
                }
                starred = true;
                continue;
            }
            writeln!(f, "  {:>8} {}", row * ROW, letters.iter().collect::<String>())?;
            before = Some(letters);
            starred = false;
        }
        Ok(())
    }
}
