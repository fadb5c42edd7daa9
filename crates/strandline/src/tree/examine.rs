//! Examines a table file before it is ingested.

use std::sync::Arc;

use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::{Error, ErrorKind, Result, Seq};
use ssd::Read;
use sst::{EntryKind, Layout, ReadAt, Uncached};

use super::desc::TableDesc;
use super::tiers::OWN;

const INGEST: &str = "ingest";

/// A copy of a table; messages use the name of the original.
pub(crate) struct TableCopy {
    pub file: Arc<dyn Read>,
    pub name: String,
}

/// The table in a copy, read block by block.
type WholeCopy = sst::Table<Uncached<Arc<TableCopy>>>;

impl ReadAt for TableCopy {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(at, out)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Reads all of a table that was written to be ingested. Returns its description for the manifest; the store fills in number,
/// level and keyspace.
///
/// # Errors
/// `Corruption` for damage; `NotSupported` for what this build does not read, merge operands and single deletions
/// among it; `LimitExceeded` for long keys and values; `InvalidArgument` for a table that was not written to be
/// ingested, has a key twice, or nothing.
pub(crate) fn examine(copy: TableCopy) -> Result<TableDesc> {
    let (name, len) = (copy.name.clone(), copy.len());
    let refused = |kind, what: &str| Error::new(kind, INGEST, format!("{name} {what}"));
    // The file: written for an ingest, and whole.
    let layout = Layout::open(&copy)?;
    if layout.properties().external_version.is_none() {
        return Err(refused(
            ErrorKind::InvalidArgument,
            "was not written to be ingested; write it with RocksDB's SstFileWriter, or as an external table",
        ));
    }
    let table = Arc::new(sst::Table::new(Arc::new(layout), Uncached(Arc::new(copy))));
    if let Some(finding) = table.verify()?.first() {
        let text = format!("is damaged: {finding}; write it anew");
        return Err(refused(ErrorKind::Corruption, &text));
    }
    let mut desc = TableDesc {
        id: 0,
        extent: None,
        tier: OWN,
        keyspace: 0,
        level: 0,
        len,
        sum: 0,
        entries: 0,
        deletions: 0,
        range_deletes: 0,
        min_seq: Seq::ZERO,
        max_seq: Seq::ZERO,
        global_seq: Seq::ZERO,
        smallest: Vec::new(),
        largest: Vec::new(),
        ends_before: false,
        values: Vec::new(),
    };
    add_entries(&mut desc, &table, &refused)?;
    add_range_deletes(&mut desc, &table, &refused)?;
    if desc.entries + desc.range_deletes == 0 {
        return Err(refused(ErrorKind::InvalidArgument, "is empty; leave it out"));
    }
    Ok(desc)
}

/// Counts the entries of a table: values and deletions only, each key once, lengths within the limits.
fn add_entries(
    desc: &mut TableDesc,
    table: &Arc<WholeCopy>,
    refused: &impl Fn(ErrorKind, &str) -> Error,
) -> Result<()> {
    let mut cursor = table.cursor();
    cursor.first()?;
    while cursor.valid() {
        let key = cursor.key();
        match cursor.kind() {
            EntryKind::Value => {}
            EntryKind::Delete => desc.deletions += 1,
            EntryKind::ValueRef => {
                let text = format!(
                    "refers to a value file at key {}; write values and deletions",
                    key.escape_ascii()
                );
                return Err(refused(ErrorKind::NotSupported, &text));
            }
            EntryKind::Merge | EntryKind::SingleDelete => {
                let text = format!(
                    "has a merge operand or single deletion at key {}; write values and deletions",
                    key.escape_ascii()
                );
                return Err(refused(ErrorKind::NotSupported, &text));
            }
        }
        if desc.entries > 0 && key == &desc.largest[..] {
            let text = format!("has key {} twice; write it once", key.escape_ascii());
            return Err(refused(ErrorKind::InvalidArgument, &text));
        }
        check_len(refused, key, cursor.value().len())?;
        if desc.entries == 0 {
            desc.smallest = key.to_vec();
        }
        desc.largest.clear();
        desc.largest.extend_from_slice(key);
        desc.entries += 1;
        cursor.next()?;
    }
    Ok(())
}

/// Counts the range deletions, which may widen the bounds.
fn add_range_deletes(
    desc: &mut TableDesc,
    table: &WholeCopy,
    refused: &impl Fn(ErrorKind, &str) -> Error,
) -> Result<()> {
    for delete in table.range_deletes()? {
        check_len(refused, &delete.begin, 0)?;
        check_len(refused, &delete.end, 0)?;
        let first = desc.entries + desc.range_deletes == 0;
        if first || delete.begin < desc.smallest {
            desc.smallest = delete.begin;
        }
        if first || delete.end > desc.largest {
            desc.largest = delete.end;
            desc.ends_before = true;
        }
        desc.range_deletes += 1;
    }
    Ok(())
}

fn check_len(
    refused: &impl Fn(ErrorKind, &str) -> Error,
    key: &[u8],
    value_len: usize,
) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX && value_len <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "has a key of {} and a value of {value_len} bytes; at most {KEY_BYTES_MAX} and {VALUE_BYTES_MAX}",
        key.len()
    );
    Err(refused(ErrorKind::LimitExceeded, &text))
}
