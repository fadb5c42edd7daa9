//! X: a store as a database of RocksDB, as of one moment.
//!
//! - **X1** as K1 to K3 of a checkpoint: all data as tables, in a directory beside the target
//! - **X2** what RocksDB could not read as it lies is written out anew
//! - **X3** RocksDB's manifest, in one group of edits: RocksDB takes all of it or none
//! - **X4** everything synced, one rename

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};
use ssd::Fs;
use sst::manifest::{
    BlobFile, BlobGarbage, FamilyChange, LevelFile, NewFile, VersionEdit, write_log,
};
use sst::{Layout, Uncached};

use super::bound_key::BoundKey;
use super::options_file::{self, FamilyOptions};
use super::plain::Rewritten;
use super::{BYTEWISE, CURRENT, operators};
use crate::backup::staging::Staging;
use crate::engine::Engine;
use crate::manifest::{KeyspaceDesc, ManifestState};
use crate::open::ground::{Ground, Machine};
use crate::operators::BuiltInOperator;
use crate::tree::blocks::File;
use crate::tree::desc::{TableDesc, ValueFileState};
use crate::tree::names::FileName;
use crate::tree::tables::TableDir;

pub(super) const EXPORT: &str = "export";
/// Number of RocksDB's column family `default`, and of the keyspace.
const DEFAULT: u32 = 0;

/// What [`Db::export_rocksdb`](crate::Db::export_rocksdb) wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksdbExport {
    /// The last sequence number in it.
    pub seq: Seq,
    /// Its column families, by their names.
    pub families: Vec<ExportedFamily>,
}

/// A keyspace as a column family.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedFamily {
    /// Name of both.
    pub name: String,
    /// Tables.
    pub tables: u64,
    /// Value files.
    pub value_files: u64,
    /// Why it was written out anew, if it was.
    pub rewritten: Option<Rewritten>,
    /// The merge operator of the keyspace, if RocksDB has none of that kind, so that the family is without one.
    pub operator_left_out: Option<String>,
}

impl Engine {
    /// Makes a database of RocksDB in the new directory `target`.
    pub(crate) fn export_rocksdb(&self, target: &Path) -> Result<RocksdbExport> {
        self.check_open(EXPORT)?;
        self.refuse_lost(EXPORT)?;
        let fs = self.table_fs();
        let staging = Staging::begin(&*fs, EXPORT, target)?;
        let made = self.write_database(&fs, &staging.path);
        staging.end(EXPORT, made, |_| Ok(()))
    }

    /// X1 to X4, but for the rename.
    fn write_database(&self, fs: &Arc<dyn Fs>, dir: &Path) -> Result<RocksdbExport> {
        fs.create_dir_all(dir)?;
        let table_dir = TableDir { fs: Arc::clone(fs), dir: dir.to_owned() };
        let (cut, mut state) = self.copy_to_tables(table_dir.clone())?;
        let rewritten = self.rewrite_foreign(&table_dir, &mut state, cut)?;
        let (manifest, options) = (state.next_table, state.next_table + 1);
        let id = database_id()?;
        let edits = edits(&table_dir, &state, &id, options + 1)?;
        let records: Vec<Vec<u8>> = edits.iter().map(VersionEdit::encode).collect();
        let log = write_log(records.iter().map(|record| &record[..]));
        let name = format!("MANIFEST-{manifest:06}");
        write(&**fs, dir, &name, &log)?;
        let text = self.options_text(&state);
        write(&**fs, dir, &format!("OPTIONS-{options:06}"), text.as_bytes())?;
        write(&**fs, dir, "IDENTITY", id.as_bytes())?;
        write(&**fs, dir, CURRENT, format!("{name}\n").as_bytes())?;
        fs.sync_dir(dir)?;
        let families = state.keyspaces.iter().map(|(id, desc)| ExportedFamily {
            name: desc.name.clone(),
            tables: desc.levels.tables().count() as u64,
            value_files: desc.levels.value_files().count() as u64,
            rewritten: rewritten.get(id).cloned(),
            operator_left_out: match rocksdb_operator(desc) {
                Some(_) => None,
                None => desc.options.options.merge_operator.clone(),
            },
        });
        Ok(RocksdbExport { seq: cut, families: families.collect() })
    }

    fn options_text(&self, state: &ManifestState) -> String {
        let family = |desc: &KeyspaceDesc| {
            let writer = self.options().table_writer(&desc.options.options);
            FamilyOptions {
                name: desc.name.clone(),
                merge_operator: rocksdb_operator(desc),
                compression: writer.compression,
                blobs_from: desc
                    .options
                    .options
                    .value_files_min
                    .unwrap_or(self.options().value_files_min),
                filter_bits: writer.filter_bits_per_key as u32,
            }
        };
        // The order of numbers: `default` is 0.
        let families: Vec<FamilyOptions> = state.keyspaces.values().map(family).collect();
        options_file::text(&families)
    }
}

/// What RocksDB calls the merge operator of a keyspace, if it has that one.
fn rocksdb_operator(desc: &KeyspaceDesc) -> Option<String> {
    let named = desc.options.options.merge_operator.as_deref().and_then(BuiltInOperator::named);
    named.as_ref().and_then(operators::rocksdb_text)
}

/// Something like a UUID that no other database has.
fn database_id() -> Result<String> {
    let ground = Machine::here();
    let (high, low) = (ground.fresh_id()?, ground.fresh_id()?);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    Ok(format!(
        "{a:08x}-{b:04x}-4{c:03x}-8{:03x}-{:012x}",
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    ))
}

fn write(fs: &dyn Fs, dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = fs.create(&dir.join(name))?;
    file.append(bytes)?;
    file.sync()
}

/// All that the manifest says.
fn edits(
    table_dir: &TableDir,
    state: &ManifestState,
    id: &str,
    next_file: u64,
) -> Result<Vec<VersionEdit>> {
    if state.keyspaces.get(&DEFAULT).is_none_or(|desc| desc.name != "default") {
        let text = "keyspace default has another number than RocksDB's; report this";
        return Err(Error::new(ErrorKind::Internal, EXPORT, text));
    }
    let mut edits = vec![VersionEdit {
        db_id: Some(id.to_owned()),
        comparator: Some(BYTEWISE.into()),
        log_number: Some(0),
        next_file: Some(next_file),
        last_seq: Some(state.floor.get()),
        family_max: state.keyspaces.keys().last().copied(),
        ..VersionEdit::default()
    }];
    for (family, desc) in &state.keyspaces {
        if *family != DEFAULT {
            edits.push(VersionEdit {
                family: *family,
                change: Some(FamilyChange::Add(desc.name.clone())),
                comparator: Some(BYTEWISE.into()),
                ..VersionEdit::default()
            });
        }
        let values: BTreeMap<u64, &ValueFileState> =
            desc.levels.value_files().map(|file| (file.desc.id, file)).collect();
        let new_files = desc.levels.tables().map(|table| new_file(table_dir, table));
        edits.push(VersionEdit {
            family: *family,
            log_number: Some(0),
            new_files: new_files.collect::<Result<_>>()?,
            blob_files: values.values().map(|file| blob_file(file)).collect(),
            blob_garbage: values.values().filter_map(|file| garbage(file)).collect(),
            ..VersionEdit::default()
        });
    }
    let count = edits.len() as u32;
    for (edit, left) in edits.iter_mut().zip((0..count).rev()) {
        edit.group_left = Some(left);
    }
    Ok(edits)
}

fn blob_file(file: &ValueFileState) -> BlobFile {
    BlobFile { number: file.desc.id, values: file.desc.values, bytes: file.desc.bytes() }
}

fn garbage(file: &ValueFileState) -> Option<BlobGarbage> {
    let values = file.desc.values - file.live_values;
    let bytes = file.desc.bytes() - file.live_bytes;
    (values > 0).then_some(BlobGarbage { number: file.desc.id, values, bytes })
}

/// A table as the manifest has it. Our bounds are no keys of it, RocksDB's are.
fn new_file(table_dir: &TableDir, desc: &TableDesc) -> Result<NewFile> {
    let path = table_dir.dir.join(FileName::Table(desc.id).text());
    let file = File(table_dir.fs.open(&path)?);
    let layout = Layout::open(&file)?;
    let layout = match desc.global_seq {
        Seq::ZERO => layout,
        seq => layout.with_global_seq(seq),
    };
    let table = Arc::new(sst::Table::new(Arc::new(layout), Uncached(file)));
    let (mut low, mut high): (Option<BoundKey>, Option<BoundKey>) = (None, None);
    let mut cursor = table.cursor();
    cursor.first()?;
    if cursor.valid() {
        low = Some(BoundKey::new(cursor.key(), cursor.seq(), cursor.kind() as u8));
    }
    cursor.last()?;
    if cursor.valid() {
        high = Some(BoundKey::new(cursor.key(), cursor.seq(), cursor.kind() as u8));
    }
    for delete in table.range_deletes()? {
        let (begin, end) =
            (BoundKey::range_begin(&delete.begin, delete.seq), BoundKey::range_end(&delete.end));
        low = Some(low.map_or(begin.clone(), |low| low.min(begin)));
        high = Some(high.map_or(end.clone(), |high| high.max(end)));
    }
    let (Some(smallest), Some(largest)) = (low, high) else {
        let text = format!("{} has no entry; restore it", path.display());
        return Err(Error::corruption(EXPORT, text));
    };
    Ok(NewFile {
        at: LevelFile { level: desc.level.into(), number: desc.id },
        path: 0,
        len: desc.len,
        smallest: smallest.encode(),
        largest: largest.encode(),
        min_seq: desc.min_seq.get(),
        max_seq: desc.max_seq.get(),
        oldest_blob_file: desc.values.iter().map(|share| share.file).min(),
    })
}
