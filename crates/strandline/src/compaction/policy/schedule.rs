//! A test of the pick: whatever is under way at once, and in whatever order it ends, the rules of the tree hold.

use std::collections::BTreeMap;

use testkit::Rng;

use crate::compaction::policy::pick::{
    Arriving, Choice, Level0Facts, PickerInput, Pressure, RoomFacts, pick, pick_level0, pick_unfit,
};
use crate::span::BoundsRef;
use crate::tree::desc::LEVELS;
use crate::tree::facts::{TableContent, TableFacts};

/// Keys of a table, each with its newest number.
type ModelEntries = BTreeMap<u16, u64>;

const KEYS: u64 = 1000;
const LEVEL0_BYTES: u64 = 3;
/// Entries of a table.
const TABLE: usize = 3;
const UNDER_WAY_MAX: usize = 4;

struct ModelTable {
    id: u64,
    entries: ModelEntries,
    smallest: [u8; 2],
    largest: [u8; 2],
    busy: bool,
}

struct UnderWay {
    level0: Option<ModelEntries>,
    /// Levels and numbers of tables.
    inputs: Vec<(usize, u64)>,
    into: usize,
    moves: bool,
    smallest: [u8; 2],
    largest: [u8; 2],
}

#[derive(Default)]
struct Sim {
    levels: [Vec<ModelTable>; LEVELS],
    level0: ModelEntries,
    level0_busy: bool,
    under_way: Vec<UnderWay>,
    seq: u64,
    id: u64,
}

fn bounds(entries: &ModelEntries) -> Option<([u8; 2], [u8; 2])> {
    let ends = entries.first_key_value().zip(entries.last_key_value());
    ends.map(|((low, _), (high, _))| (low.to_be_bytes(), high.to_be_bytes()))
}

impl Sim {
    /// Puts keys that lie close together, where others may leave a gap, or anywhere.
    fn write(&mut self, rng: &mut Rng) {
        let (from, width) = match rng.below(8) {
            0 => (0, KEYS),
            1..4 => (rng.below(KEYS / 8), 12),
            4..7 => (KEYS / 8 * 7 + rng.below(KEYS / 8), 12),
            _ => (rng.below(KEYS), 12),
        };
        for _ in 0..rng.below(2 * LEVEL0_BYTES) + 1 {
            self.seq += 1;
            self.level0.insert((from + rng.below(width)) as u16, self.seq);
        }
    }

    fn begin(&mut self, pressure: Pressure) {
        let fresh = if self.level0_busy { ModelEntries::new() } else { self.level0.clone() };
        let ends = bounds(&fresh);
        let choice = {
            let input = PickerInput {
                level0: Level0Facts {
                    bytes: fresh.len() as u64,
                    files: fresh.len() as u64,
                    bounds: ends
                        .as_ref()
                        .map(|(smallest, largest)| BoundsRef { smallest, largest }),
                    busy: self.level0_busy,
                    due: fresh.len() as u64 >= LEVEL0_BYTES
                        || pressure == Pressure::Stalled && !fresh.is_empty(),
                    // Now and then it is a memtable.
                    waits: self.seq.is_multiple_of(2),
                },
                levels: self.levels.each_ref().map(|level| {
                    let facts = level.iter().map(|table| TableFacts {
                        bytes: table.entries.len() as u64,
                        weight: table.entries.len() as u64,
                        bounds: BoundsRef { smallest: &table.smallest, largest: &table.largest },
                        busy: table.busy,
                        deletes: (table.id % 4 * 250) as u32,
                    });
                    facts.collect()
                }),
                arriving: self
                    .under_way
                    .iter()
                    .map(|each| Arriving {
                        level: each.into,
                        bounds: BoundsRef { smallest: &each.smallest, largest: &each.largest },
                    })
                    .collect(),
                level0_bytes: LEVEL0_BYTES,
                // Now and then tables have references.
                content: match self.id % 3 {
                    0 => TableContent::References,
                    _ => TableContent::Values,
                },
                pressure,
                room: self.room(pressure),
            };
            let fitting = pick_level0(&input).or_else(|| pick(&input));
            fitting.or_else(|| pick_unfit(&input))
        };
        let Some(choice) = choice else {
            let idle = self.under_way.is_empty() && fresh.len() as u64 >= LEVEL0_BYTES;
            assert!(!idle, "level 0 waits for nothing");
            return;
        };
        self.take(choice);
    }

    /// Now and then there is little room, or none but for what frees some.
    fn room(&self, pressure: Pressure) -> RoomFacts {
        let little = pressure == Pressure::Stalled && self.seq.is_multiple_of(3);
        RoomFacts {
            levels: if little { 0 } else { u64::MAX },
            relief: if little { self.seq % 7 } else { u64::MAX },
            cut_at: 1,
            short: little,
            missed: little && self.seq.is_multiple_of(5),
        }
    }

    fn take(&mut self, choice: Choice) {
        let ids = |level: usize, range: std::ops::Range<usize>| {
            self.levels[level - 1][range].iter().map(move |table| (level, table.id))
        };
        let (whole, upper, into, onto) = match choice {
            Choice::Level0 { into, onto } => (true, Vec::new(), into, onto),
            Choice::Levels { from, onto } => {
                let upper =
                    from.clone().flat_map(|level| ids(level, 0..self.levels[level - 1].len()));
                (false, upper.collect(), from.end, onto)
            }
            Choice::Table { from, table, onto } => {
                (false, ids(from, table..table + 1).collect(), from + 1, onto)
            }
            Choice::Parted { level, table } => (false, Vec::new(), level, table..table + 1),
        };
        let one_level = upper.windows(2).all(|pair| pair[0].0 == pair[1].0);
        let moves = !whole && onto.is_empty() && one_level;
        let inputs: Vec<(usize, u64)> = upper.iter().copied().chain(ids(into, onto)).collect();
        let level0 = whole.then(|| std::mem::take(&mut self.level0));
        self.level0_busy |= whole;
        let mut hull: Vec<_> = level0.iter().filter_map(bounds).collect();
        for table in self.levels.iter_mut().flatten() {
            if inputs.iter().any(|(_, id)| *id == table.id) {
                assert!(!std::mem::replace(&mut table.busy, true), "taken twice");
                hull.push((table.smallest, table.largest));
            }
        }
        let all = hull.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (smallest, largest) = all.expect("inputs");
        self.under_way.push(UnderWay { level0, inputs, into, moves, smallest, largest });
    }

    fn end(&mut self, at: usize) {
        let done = self.under_way.swap_remove(at);
        let mut taken = Vec::new();
        for level in &mut self.levels {
            let is_input =
                |table: &mut ModelTable| done.inputs.iter().any(|(_, id)| *id == table.id);
            taken.extend(level.extract_if(.., is_input));
        }
        if done.moves {
            taken.iter_mut().for_each(|table| table.busy = false);
            self.levels[done.into - 1].extend(taken);
        } else {
            self.level0_busy &= done.level0.is_none();
            let mut merged = done.level0.unwrap_or_default();
            for (key, seq) in taken.iter().flat_map(|table| &table.entries) {
                let newest = merged.entry(*key).or_default();
                *newest = (*newest).max(*seq);
            }
            let entries: Vec<(u16, u64)> = merged.into_iter().collect();
            for part in entries.chunks(TABLE) {
                self.id += 1;
                let entries: ModelEntries = part.iter().copied().collect();
                let (smallest, largest) = bounds(&entries).expect("entries");
                let table = ModelTable { id: self.id, entries, smallest, largest, busy: false };
                self.levels[done.into - 1].push(table);
            }
        }
        self.levels[done.into - 1].sort_by_key(|table| table.smallest);
        self.check();
    }

    fn check(&self) {
        for level in &self.levels {
            assert!(level.windows(2).all(|pair| pair[0].largest < pair[1].smallest), "I-TREE-1");
        }
        // Numbers of a key fall from level to level; those of level 0 on its way down are newer still.
        let mut newest: BTreeMap<u16, u64> = BTreeMap::new();
        for (key, seq) in self.levels.iter().flatten().flat_map(|table| &table.entries) {
            let above = newest.insert(*key, *seq);
            assert!(above.is_none_or(|above| above > *seq), "I-TREE-2");
        }
    }
}

#[test]
fn whatever_is_under_way_the_rules_of_the_tree_hold() {
    // In these three a table moves down towards a gap that another is about to fill.
    for seed in (0..100).chain([543, 2169, 9195]) {
        let (mut sim, mut rng) = (Sim::default(), Rng::new(seed));
        for _ in 0..3000 {
            match rng.below(10) {
                0..4 if sim.level0.len() < 4 * LEVEL0_BYTES as usize => sim.write(&mut rng),
                0..7 if sim.under_way.len() < UNDER_WAY_MAX => {
                    sim.begin(if rng.below(3) == 0 { Pressure::Stalled } else { Pressure::Normal })
                }
                _ if !sim.under_way.is_empty() => {
                    let at = rng.below(sim.under_way.len() as u64) as usize;
                    // What reads much takes long, and others begin and end meanwhile.
                    let each = &sim.under_way[at];
                    let slow = each.level0.is_some() || each.inputs.len() > 2;
                    if !slow || rng.below(12) == 0 {
                        sim.end(at);
                    }
                }
                _ => {}
            }
        }
    }
}
