//! A level: disjoint tables in key order.

use std::sync::Arc;

use base::{Result, Seq};
use sst::{Handle, Hit, Search};

use super::table::Table;
use crate::cache::blocks_read;
use crate::cache::records::FoundIn;
use crate::fences::{Fences, FencesBuilder, Side};
use crate::ranges::Stretch;
use crate::record::found::Found;
use crate::span::Span;

/// The tables of one level (I-TREE-1).
pub(crate) struct Level {
    pub tables: Vec<Arc<Table>>,
    /// Highest keys of the tables.
    fences: Fences,
    /// Whether any table has range deletions.
    pub has_ranges: bool,
}

impl Default for Level {
    fn default() -> Level {
        Level::new(Vec::new())
    }
}

impl Level {
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Level {
        let has_ranges = tables.iter().any(|table| table.desc.range_deletes > 0);
        let mut fences = FencesBuilder::default();
        tables.iter().for_each(|table| fences.push_raw(&table.desc.largest));
        Level { tables, fences: fences.finish(), has_ranges }
    }

    /// Position of the first table that holds keys behind this side of `key`.
    #[inline]
    pub(crate) fn first_from(&self, key: &[u8], side: Side) -> usize {
        let first = self.fences.rank(key, side);
        let ends_here = |table: &Arc<Table>| table.desc.is_below(key);
        first + usize::from(self.tables.get(first).is_some_and(ends_here))
    }

    /// The table whose bounds `key` lies in.
    #[inline]
    pub(crate) fn table_of(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.tables.get(self.first_from(key, Side::Before))?;
        (&table.desc.smallest[..] <= key).then_some(table)
    }

    /// Looks up the keys with the numbers `wanted`, which are in order. Blocks of one table are read together. Of each key for which one had to
    /// be read `found_in` says so; where several are in one block, of the first.
    pub(crate) fn get_many(
        &self,
        keys: &[&[u8]],
        wanted: &[usize],
        snapshot: Seq,
        found: &mut [Option<Found>],
        found_in: &mut [FoundIn],
    ) -> Result<()> {
        let tables = wanted.iter().filter_map(|no| Some((*no, self.table_of(keys[*no])?)));
        let tables: Vec<(usize, &Arc<Table>)> = tables.collect();
        for group in tables.chunk_by(|one, next| Arc::ptr_eq(one.1, next.1)) {
            let table = group[0].1;
            let open = table.open()?;
            let mut searches = Vec::with_capacity(group.len());
            for (no, _) in group {
                let passes = open.may_contain(keys[*no])?;
                searches.push(if passes { open.search(keys[*no], snapshot)? } else { None });
            }
            let mut blocks: Vec<Handle> =
                searches.iter().flatten().filter_map(Search::block).collect();
            blocks.dedup();
            let mut read = open.blocks().get_many(open.layout(), &blocks);
            for ((no, _), search) in group.iter().zip(searches) {
                let earlier = blocks_read();
                let hit = search.map(|mut search| {
                    let place = blocks.iter().position(|block| Some(*block) == search.block());
                    if let Some(given) = place.and_then(|place| read[place].as_mut()) {
                        search.give(Arc::clone(&given.block));
                        let was_read = std::mem::replace(&mut given.found_in, FoundIn::Memory);
                        found_in[*no] = found_in[*no].max(was_read);
                    }
                    open.finish(search)
                });
                // What versions of a key go on in.
                found_in[*no] = found_in[*no].max(FoundIn::since(earlier));
                let deleted = self.deleted_in(table, keys[*no], snapshot)?;
                found[*no] = verdict(hit.transpose()?.flatten(), deleted);
            }
        }
        Ok(())
    }

    /// Number of the newest range deletion of `key` in its table up to `snapshot`; 0 if there is none.
    #[inline]
    pub(crate) fn deleted_in(&self, table: &Table, key: &[u8], snapshot: Seq) -> Result<Seq> {
        if self.has_ranges { Ok(table.ranges()?.newest(key, snapshot)) } else { Ok(Seq::ZERO) }
    }

    /// Number of the newest range deletion of `key` here up to `snapshot`; 0 if there is none.
    pub(crate) fn newest_delete(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        self.table_of(key).map_or(Ok(Seq::ZERO), |table| self.deleted_in(table, key, snapshot))
    }

    /// The keys around `key` that the newest range deletion of it here covers up to `snapshot`.
    pub(crate) fn covering(&self, key: &[u8], snapshot: Seq) -> Result<Option<Stretch<'_>>> {
        match self.table_of(key).filter(|_| self.has_ranges) {
            Some(table) => Ok(table.ranges()?.covering(key, snapshot)),
            None => Ok(None),
        }
    }

    /// Positions of the tables that may have keys of `span`.
    pub(crate) fn within(&self, span: &Span) -> std::ops::Range<usize> {
        let first = span.from().map_or(0, |key| self.first_from(key, Side::Before));
        let begins =
            |table: &Arc<Table>| span.before().is_none_or(|upper| &table.desc.smallest[..] < upper);
        first..first + self.tables[first..].partition_point(begins)
    }

    /// The same tables, and those behind them that begin where the last one ends without having that key: bounds of keys include
    /// both ends, so that these would overlap the others.
    pub(crate) fn touching(&self, within: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let mut end = within.end;
        while let (true, [.., last], Some(next)) =
            (end > within.start, &self.tables[..end], self.tables.get(end))
            && last.desc.largest == next.desc.smallest
        {
            end += 1;
        }
        within.start..end
    }

    /// Positions of the tables that overlap the keys from `smallest` to `largest`, both included.
    pub(crate) fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> std::ops::Range<usize> {
        let first = self.first_from(smallest, Side::Before);
        let rest = &self.tables[first..];
        first..first + rest.partition_point(|table| &table.desc.smallest[..] <= largest)
    }
}

/// The answer of a table about a key: its entry `hit`, and the newest range deletion, `deleted`.
#[inline]
pub(crate) fn verdict(hit: Option<Hit>, deleted: Seq) -> Option<Found> {
    match hit {
        // All entries of an ingested file have one number, so its range deletions spare its own keys.
        Some(hit) if hit.seq >= deleted => Some(Found::Table(hit)),
        _ if deleted > Seq::ZERO => Some(Found::RangeDeleted(deleted)),
        _ => None,
    }
}
