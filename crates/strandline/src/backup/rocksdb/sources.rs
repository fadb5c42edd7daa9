//! The tables of a column family as sources of a merge, and what their range deletions cover.
//!
//! Sequence numbers alone tell what is newer: the place of a table in the levels matters only where two entries of a key have
//! one number. A range deletion counts within the bounds of its table, as in RocksDB: beyond them it may have been dropped
//! already, and numbers of what it covered and of what came later may be 0.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, Result, Seq};
use ssd::Fs;
use sst::manifest::NewFile;
use sst::{Cursor, EntryKind, Layout, RangeDelete};

use super::bound_key::BoundKey;
use super::import::IMPORT;
use super::version::Family;
use crate::iter::source::{self, Source};
use crate::tree::ahead::Ahead;
use crate::tree::blocks::File;
use crate::tree::names::FileName;

/// The version of external tables whose number the manifest has.
const NUMBERED: u32 = 2;

/// A family's tables.
pub(super) struct FamilyTables {
    /// Newest first.
    pub sources: Vec<TableChain>,
    pub deletes: Vec<RangeDelete>,
    /// Operands of a merge operator among the entries.
    pub operands: u64,
}

/// Tables behind each other, in key order: a level, or one table of level 0.
pub(super) struct TableChain {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    left: VecDeque<NewFile>,
    cursor: Option<Cursor<Ahead>>,
}

impl FamilyTables {
    /// Opens each table once, for what its ends say.
    pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path, family: &Family) -> Result<FamilyTables> {
        let (mut deletes, mut operands) = (Vec::new(), 0);
        let mut levels: BTreeMap<u32, Vec<NewFile>> = BTreeMap::new();
        for file in family.files.values() {
            let (layout, bytes) = open(&**fs, dir, file)?;
            operands += layout.properties().merges;
            let bounds = bounds(dir, file)?;
            let clipped = layout.range_deletes(&bytes)?.into_iter();
            deletes.extend(clipped.filter_map(|delete| clip(delete, &bounds)));
            levels.entry(file.at.level).or_default().push(file.clone());
        }
        let mut chains: Vec<VecDeque<NewFile>> = Vec::new();
        for (level, mut files) in levels {
            match level {
                0 => {
                    files.sort_by_key(|file| std::cmp::Reverse((file.max_seq, file.at.number)));
                    chains.extend(files.into_iter().map(|file| VecDeque::from([file])));
                }
                _ => {
                    files.sort_by_cached_key(|file| BoundKey::decode(&file.smallest));
                    chains.push(files.into());
                }
            }
        }
        let chain = |left| {
            let mut chain =
                TableChain { fs: Arc::clone(fs), dir: dir.to_owned(), left, cursor: None };
            chain.skip_ended().map(|()| chain)
        };
        let sources = chains.into_iter().map(chain).collect::<Result<_>>()?;
        Ok(FamilyTables { sources, deletes, operands })
    }
}

impl TableChain {
    /// Kind and value of the entry it stands on.
    pub(super) fn entry(&self) -> Option<(EntryKind, &[u8])> {
        let cursor = self.cursor.as_ref()?;
        Some((cursor.kind(), cursor.value()))
    }

    /// Goes on to the next table that has an entry, where the one before has ended.
    fn skip_ended(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_none_or(|cursor| !cursor.valid()) {
            let Some(file) = self.left.pop_front() else {
                self.cursor = None;
                return Ok(());
            };
            let (layout, bytes) = open(&*self.fs, &self.dir, &file)?;
            let end = layout.properties().data_size;
            let table = Arc::new(sst::Table::new(Arc::new(layout), Ahead::new(bytes, end)));
            let mut cursor = table.cursor();
            cursor.first()?;
            self.cursor = Some(cursor);
        }
        Ok(())
    }
}

impl Source for TableChain {
    type Context = ();

    fn head<'s>(&'s self, (): &'s ()) -> Option<source::InternalKey<'s>> {
        let cursor = self.cursor.as_ref()?;
        Some(source::InternalKey { key: cursor.key(), seq: cursor.seq() })
    }

    fn advance(&mut self, (): &()) -> Result<()> {
        self.cursor.as_mut().map_or(Ok(()), Cursor::next)?;
        self.skip_ended()
    }
}

fn open(fs: &dyn Fs, dir: &Path, file: &NewFile) -> Result<(Layout, File)> {
    let path = dir.join(FileName::Table(file.at.number).text());
    let bytes = File(fs.open(&path)?);
    if bytes.0.len() != file.len {
        let text = format!(
            "{} has {} bytes, its manifest says {}; restore it",
            path.display(),
            bytes.0.len(),
            file.len
        );
        return Err(Error::corruption(IMPORT, text));
    }
    let layout = Layout::open(&bytes)?;
    let seq = Seq::new(file.max_seq);
    let stored = layout.properties().global_seq;
    let layout = match layout.properties().external_version {
        Some(version) if version >= NUMBERED => {
            if stored != Seq::ZERO && stored != seq {
                let text = format!(
                    "{} was ingested with sequence number {stored}, its manifest says {seq}; restore it",
                    path.display()
                );
                return Err(Error::corruption(IMPORT, text));
            }
            layout.with_global_seq(seq)
        }
        _ => layout,
    };
    Ok((layout, bytes))
}

struct Bounds {
    smallest: BoundKey,
    largest: BoundKey,
}

fn bounds(dir: &Path, file: &NewFile) -> Result<Bounds> {
    let ends = BoundKey::decode(&file.smallest).zip(BoundKey::decode(&file.largest));
    match ends {
        Some((smallest, largest)) if smallest <= largest => Ok(Bounds { smallest, largest }),
        _ => {
            let path = dir.join(FileName::Table(file.at.number).text());
            let text =
                format!("the bounds of {} are out of order; restore the manifest", path.display());
            Err(Error::corruption(IMPORT, text))
        }
    }
}

/// What of a range deletion counts within the bounds of its table.
fn clip(delete: RangeDelete, within: &Bounds) -> Option<RangeDelete> {
    let begin = delete.begin.max(within.smallest.user.clone());
    let last = &within.largest.user;
    let end = match within.largest.is_range_end() {
        true => last.clone(),
        // The last key is part of the table.
        false => [&last[..], &[0]].concat(),
    };
    let end = delete.end.min(end);
    (begin < end).then_some(RangeDelete { begin, end, seq: delete.seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_deletion_counts_within_its_table() {
        let key = |user: &str| BoundKey::new(user.as_bytes(), Seq::new(5), 1);
        let to_key = Bounds { smallest: key("c"), largest: key("m") };
        let to_end = Bounds { smallest: key("c"), largest: BoundKey::range_end(b"m") };
        let clipped = |begin: &str, end: &str, within: &Bounds| {
            let delete = RangeDelete { begin: begin.into(), end: end.into(), seq: Seq::new(9) };
            clip(delete, within).map(|delete| (delete.begin, delete.end))
        };
        let some = |begin: &[u8], end: &[u8]| Some((begin.to_vec(), end.to_vec()));
        assert_eq!(clipped("d", "e", &to_key), some(b"d", b"e"));
        assert_eq!(clipped("a", "z", &to_key), some(b"c", b"m\0"));
        assert_eq!(clipped("a", "z", &to_end), some(b"c", b"m"));
        assert_eq!(clipped("a", "c", &to_key), None);
        assert_eq!(clipped("n", "z", &to_key), None);
        assert_eq!(clipped("m", "z", &to_key), some(b"m", b"m\0"));
        assert_eq!(clipped("m", "z", &to_end), None);
    }
}
