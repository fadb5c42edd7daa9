//! What fuzzing runs, for `fuzz/` and for the tests below. No input may panic, overrun or go on for ever.
//!
//! Every target has two forms. In one of them checksums are not looked at: hardly any input would reach what lies
//! behind them.

use std::sync::Arc;

use base::Seq;

use crate::block::Block;
use crate::block::cursor::BlockCursor;
pub use crate::checksum::Checksums;
use crate::footer::{FOOTER_LEN, Footer};
use crate::key::{SEQ_MAX, Target, split};
use crate::{Cursor, Handle, Layout, Role, Table, Uncached, filter};

/// Longest block after decompression: keeps single runs short.
const CAP: u64 = 1 << 16;
/// Entries after which a run ends.
const STEPS_MAX: usize = 10_000;

/// One target: takes any bytes.
pub type Body = fn(&[u8], Checksums);

/// All targets by name.
pub const TARGETS: [(&str, Body); 6] = [
    ("footer", footer),
    ("index", index),
    ("data_block", data_block),
    ("filter", filter),
    ("properties", properties),
    ("table", table),
];

/// The last bytes as a footer.
pub fn footer(data: &[u8], checksums: Checksums) {
    if let Some((front, bytes)) = data.split_last_chunk::<FOOTER_LEN>() {
        let decoded = Footer::decode(bytes, front.len() as u64, checksums);
        if let Ok(footer) = decoded
            && footer.version < 6
        {
            assert!(footer.index.is_some());
        }
    }
}

/// A byte of flags, then an index block as stored.
pub fn index(data: &[u8], checksums: Checksums) {
    block(data, Role::Index, checksums);
}

/// A byte of flags, then a data block as stored.
pub fn data_block(data: &[u8], checksums: Checksums) {
    block(data, Role::Data, checksums);
}

/// A byte with the length of a key, the key, then a filter as stored.
pub fn filter(data: &[u8], checksums: Checksums) {
    let Some((len, rest)) = data.split_first() else { return };
    let (key, stored) = rest.split_at(usize::from(*len).min(rest.len()));
    filter::may_contain(stored, key);
    if let Some((_, block)) = load(stored, 0, Role::Filter, checksums) {
        filter::may_contain(block.bytes(), key);
    }
}

/// A block of properties as stored.
pub fn properties(data: &[u8], checksums: Checksums) {
    let layout = Layout::bare(data.len() as u64, 0, checksums);
    if let Some(size) = data.len().checked_sub(5) {
        let handle = Handle { offset: 0, size: size as u64 };
        _ = layout.read_properties(&data.to_vec(), handle);
    }
}

/// A whole table: opened, checked, walked through both ways, asked for what it holds.
pub fn table(data: &[u8], checksums: Checksums) {
    let file = data.to_vec();
    let opened = match checksums {
        Checksums::Verified => Layout::open_capped(&file, CAP),
        Checksums::Ignored => Layout::open_unverified(&file, CAP),
    };
    let Ok(layout) = opened else { return };
    let table = Arc::new(Table::new(Arc::new(layout), Uncached(file)));
    _ = table.range_deletes();
    _ = table.verify();
    let (there, back) = (walk(&table, Way::Forward), walk(&table, Way::Backward));
    if let (Some(there), Some(mut back)) = (there, back) {
        back.reverse();
        assert_eq!(there, back, "both ways lead past the same entries");
        let mut newest = there;
        newest.dedup_by(|next, before| next.0 == before.0);
        assert_eq!(walk_keys(&table), Some(newest), "a walk by keys passes what is older");
    }
}

#[derive(Clone, Copy)]
enum Way {
    Forward,
    Backward,
}

type FuzzEntry = (Vec<u8>, Seq, Vec<u8>);

/// All entries one way, where none of them is damaged. Asks for some of them on the way.
fn walk(table: &Arc<Table<Uncached<Vec<u8>>>>, way: Way) -> Option<Vec<FuzzEntry>> {
    let step = |cursor: &mut Cursor<_>| match way {
        Way::Forward => cursor.next(),
        Way::Backward => cursor.prev(),
    };
    let mut cursor = table.cursor();
    let mut other = table.cursor();
    let mut found = Vec::new();
    match way {
        Way::Forward => cursor.first(),
        Way::Backward => cursor.last(),
    }
    .ok()?;
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.seq(), cursor.value().to_vec()));
        if found.len().is_power_of_two() {
            _ = table.get(cursor.key(), cursor.seq()).map(|hit| hit.map(|hit| hit.value().len()));
            _ = other.seek(cursor.key(), cursor.seq());
            _ = other.seek_for_prev(cursor.key(), cursor.seq());
        }
        if found.len() > STEPS_MAX {
            return None;
        }
        step(&mut cursor).ok()?;
    }
    Some(found)
}

/// The first entry of each user key.
fn walk_keys(table: &Arc<Table<Uncached<Vec<u8>>>>) -> Option<Vec<FuzzEntry>> {
    let mut cursor = table.cursor();
    let mut found = Vec::new();
    cursor.first().ok()?;
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.seq(), cursor.value().to_vec()));
        cursor.next_key().ok()?;
    }
    Some(found)
}

fn load(
    stored: &[u8],
    flags: u8,
    role: Role,
    checksums: Checksums,
) -> Option<(Layout, Arc<Block>)> {
    let layout = Layout::bare(stored.len() as u64, flags, checksums);
    let size = stored.len().checked_sub(5)? as u64;
    let block = layout.load(&stored.to_vec(), Handle { offset: 0, size }, role).ok()?;
    Some((layout, Arc::new(block)))
}

fn block(data: &[u8], role: Role, checksums: Checksums) {
    let Some((flags, stored)) = data.split_first() else { return };
    let Some((_, block)) = load(stored, *flags, role, checksums) else { return };
    let mut cursor = BlockCursor::new(block.clone());
    let mut there = Vec::new();
    let mut whole = cursor.first().is_ok();
    while whole && cursor.valid() {
        there.push((cursor.key().to_vec(), cursor.value_range()));
        whole = cursor.next().is_ok();
    }
    let mut back = Vec::new();
    let mut whole_back = cursor.last().is_ok();
    while whole_back && cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.value_range()));
        whole_back = cursor.prev().is_ok();
    }
    if whole && whole_back {
        back.reverse();
        assert_eq!(there, back, "both ways lead past the same entries");
    }
    let keys = there.iter().map(|(key, _)| split(key).0).chain([&b""[..], stored]);
    for user in keys.take(64) {
        for seq in [Seq::ZERO, SEQ_MAX] {
            _ = cursor.seek(&Target::at(user, seq));
            _ = cursor.find(&Target::behind(user, seq));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Tries with every input: enough to notice, few enough for every run of the tests.
    const MUTANTS: usize = 300;

    fn folder(path: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
    }

    #[test]
    fn corpus_and_mutants() {
        for (name, target) in TARGETS {
            let mut inputs = testkit::corpus::inputs(&folder(&format!("../../fuzz/corpus/{name}")));
            if name == "table" {
                let golden = std::fs::read_dir(folder("tests/golden")).unwrap();
                let mut golden: Vec<_> = golden.map(|file| file.unwrap().path()).collect();
                golden.retain(|path| path.extension().is_some_and(|end| end == "sst"));
                golden.sort();
                inputs.extend(golden.iter().map(|path| std::fs::read(path).unwrap()));
            }
            inputs.iter().for_each(|input| target(input, Checksums::Verified));
            testkit::corpus::replay(&inputs, MUTANTS, |input| target(input, Checksums::Ignored));
        }
    }
}
