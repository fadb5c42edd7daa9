//! N: a database of RocksDB as a checkpoint, which the first open makes a store.
//!
//! - **N1** read the manifest, and refuse what no store can have
//! - **N2** merge the tables of each column family: what RocksDB shows at its last sequence number goes to new tables of the
//!   deepest level, with operands as they are
//! - **N3** link the value files that these refer to, or copy them, and verify all of each
//! - **N4** a manifest file, everything synced, one rename
//!
//! The database is read only. Its logs are not: where one may have data that tables lack, nothing is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::checksum::Sum;
use base::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX};
use base::{Error, ErrorKind, Result, Seq};
use ssd::Fs;
use sst::{EntryKind, ValueRef, walk_values};

use super::operators;
use super::options_file::{self, FamilyHints};
use super::sources::{FamilyTables, TableChain};
use super::version::{Database, Family, read_file};
use crate::backup::checkpoint::belong_to_copy;
use crate::backup::staging::Staging;
use crate::cache::StoreCache;
use crate::compaction::merge::output::{Output, OutputLimits, OutputOptions};
use crate::compaction::merge::values::MergeValues;
use crate::compaction::policy::placement::OutputTier;
use crate::iter::merging::MergingIterator;
use crate::iter::source::{Source, Warmth};
use crate::manifest::{KeyspaceDesc, ManifestState, StoredOptions, file};
use crate::open::SST;
use crate::open::ground::{Ground, Machine};
use crate::options::check::check;
use crate::options::{KeyspaceOptions, Options};
use crate::ranges::{Ranges, stretch};
use crate::snapshot::Horizon;
use crate::tree::blocks::File;
use crate::tree::copy::copy;
use crate::tree::desc::{Broken, LEVELS, ValueFileDesc};
use crate::tree::names::{FileName, FilePlace};
use crate::tree::room::{FileRoom, Writes};
use crate::tree::space::NewTable;
use crate::tree::tables::{TableDir, Tables};
use crate::tree::tiers::{FileSite, OWN};
use crate::tree::value_file::{ValueFile, ValueFiles};

pub(super) const IMPORT: &str = "import";
/// Value files are cut at so many times the size of tables, as compactions do.
const FILE_TABLES: u64 = 4;
/// Bytes of a file that are read at a time.
const CHUNK: usize = 1 << 20;

/// What [`import_rocksdb`] cannot find out by itself.
///
/// ```
/// use strandline::RocksdbImportOptions;
///
/// let options = RocksdbImportOptions::new().merge_operator("visits", "add");
/// assert_eq!(options.merge_operators["visits"], "add");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksdbImportOptions {
    /// Merge operators, by the names of the column families whose operands they combine: names of
    /// [`BuiltInOperator`](crate::operators::BuiltInOperator), or that the application registers in [`Hooks`](crate::Hooks).
    /// Not needed where RocksDB's OPTIONS file names `UInt64AddOperator`, `StringAppendOperator` or `MaxOperator`.
    pub merge_operators: BTreeMap<String, String>,
}

impl RocksdbImportOptions {
    /// Nothing is known beside what the database says.
    pub fn new() -> RocksdbImportOptions {
        RocksdbImportOptions::default()
    }

    /// Column family `family` has operands of `operator`.
    #[must_use]
    pub fn merge_operator(
        mut self,
        family: impl Into<String>,
        operator: impl Into<String>,
    ) -> RocksdbImportOptions {
        self.merge_operators.insert(family.into(), operator.into());
        self
    }
}

/// What [`import_rocksdb`] made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocksdbImport {
    /// The last sequence number of the database.
    pub seq: Seq,
    /// A keyspace for each column family.
    pub keyspaces: Vec<ImportedKeyspace>,
}

/// A column family as a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedKeyspace {
    /// Name of both.
    pub name: String,
    /// Keys.
    pub keys: u64,
    /// Value files that came along.
    pub value_files: u64,
}

/// Makes a checkpoint in the new directory `to` of the database of RocksDB at `from`, which is not changed and which no process
/// should have open: what RocksDB shows at its last sequence number. [`Db::open`](crate::Db::open) makes a store of the
/// checkpoint. Tables are written anew, as `options` say; value files are linked, or copied where that does not work. Each
/// column family is the keyspace of its name.
///
/// ```no_run
/// use strandline::{Db, Options, RocksdbImportOptions, import_rocksdb};
///
/// # fn main() -> strandline::Result<()> {
/// let import =
///     import_rocksdb("old.rocksdb", "new", &Options::default(), &RocksdbImportOptions::new())?;
/// println!("{} keyspaces", import.keyspaces.len());
/// let db = Db::open("new", Options::default())?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Nothing is at `to` then. `NotFound` if there is no database, or one of its files is not there; `InvalidArgument` where `hints` name
/// a column family that the database lacks; `Exists` if there is something at `to`; `Busy` if a log may have
/// data that tables lack: RocksDB brings it into tables when it opens the database; `NotSupported`, by name, for other orders of
/// keys, user-defined timestamps, wide columns, unknown merge operators, and compressions and forms of tables that this build
/// does not read; `Corruption`, `LimitExceeded`, `Io`, `NoSpace`.
pub fn import_rocksdb(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options,
    hints: &RocksdbImportOptions,
) -> Result<RocksdbImport> {
    check(options)?;
    let fs = Machine::here().tables(options);
    let from = from.as_ref();
    // N1, before anything is made.
    let database = Database::read(&*fs, from)?;
    let text = options_text(&*fs, from)?;
    refuse_logs(&*fs, from, &database, &text)?;
    let staging = Staging::begin(&*fs, IMPORT, to.as_ref())?;
    let import = Import { fs: &fs, from, options, hints, families: options_file::families(&text) };
    let made = import.make(&database, &staging.path);
    staging.end(IMPORT, made, |_| Ok(()))
}

/// The newest OPTIONS file, if there is one.
fn options_text(fs: &dyn Fs, dir: &Path) -> Result<String> {
    let number = |name: &String| name.strip_prefix("OPTIONS-")?.parse::<u64>().ok();
    let newest = fs.list(dir)?.into_iter().filter_map(|name| Some((number(&name)?, name))).max();
    let Some((_, name)) = newest else { return Ok(String::new()) };
    Ok(String::from_utf8_lossy(&read_file(fs, &dir.join(name))?).into_owned())
}

/// Refuses a database whose logs may have what its tables lack.
fn refuse_logs(fs: &dyn Fs, dir: &Path, database: &Database, options: &str) -> Result<()> {
    let elsewhere = options_file::wal_dir(options).map(|at| dir.join(at));
    let dirs = [Some(dir.to_owned()), elsewhere].into_iter().flatten();
    for dir in dirs {
        if !fs.exists(&dir)? {
            continue;
        }
        for name in fs.list(&dir)? {
            let number = name.strip_suffix(".log").and_then(|number| number.parse::<u64>().ok());
            let counts = number.is_some_and(|number| number >= database.first_log());
            let path = dir.join(&name);
            if counts && !fs.open(&path)?.is_empty() {
                let text = format!(
                    "{} may have writes that are in no table yet; open the database with RocksDB, flush and close it \
                     (`ldb --db=DIR compact` does), then import it",
                    path.display()
                );
                return Err(Error::new(ErrorKind::Busy, IMPORT, text));
            }
        }
    }
    Ok(())
}

struct Import<'i> {
    fs: &'i Arc<dyn Fs>,
    from: &'i Path,
    options: &'i Options,
    hints: &'i RocksdbImportOptions,
    /// What RocksDB's OPTIONS file says of column families.
    families: BTreeMap<String, FamilyHints>,
}

impl Import<'_> {
    /// N2 to N4, but for the rename.
    fn make(&self, database: &Database, staging: &Path) -> Result<RocksdbImport> {
        let fs = self.fs;
        let dir = staging.join(SST);
        fs.create_dir_all(&dir)?;
        let table_dir = TableDir { fs: Arc::clone(fs), dir: dir.clone() };
        let tables = Arc::new(Tables::new(table_dir, FileRoom::unlimited(), StoreCache::own(0)));
        // Value files keep their numbers.
        tables.number_from(database.next_file.max(1));
        let mut state = ManifestState {
            floor: Seq::new(database.last_seq),
            next_run: 1,
            next_table: database.next_file.max(1),
            ..ManifestState::default()
        };
        let is_there =
            |name: &String| database.families.values().any(|family| family.name == *name);
        if let Some(name) = self.hints.merge_operators.keys().find(|name| !is_there(name)) {
            let known: Vec<&str> =
                database.families.values().map(|family| &family.name[..]).collect();
            let text = format!(
                "a merge operator is given for column family {name}, which the database lacks; it has {}",
                known.join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidArgument, IMPORT, text));
        }
        let mut import = RocksdbImport { seq: state.floor, keyspaces: Vec::new() };
        for (id, family) in &database.families {
            let (desc, keys) = self.keyspace(&tables, *id, family)?;
            let names = desc.levels.tables().map(|desc| desc.id);
            state.next_table = names.fold(state.next_table, |next, id| next.max(id + 1));
            state.next_keyspace = state.next_keyspace.max(id.saturating_add(1));
            let value_files = desc.levels.value_files().count() as u64;
            let name = family.name.clone();
            import.keyspaces.push(ImportedKeyspace { name, keys, value_files });
            state.keyspaces.insert(*id, desc);
        }
        file::write(&**fs, &dir, &state)?;
        fs.sync_dir(staging)?;
        Ok(import)
    }

    /// A column family as a keyspace, and how many keys it has.
    fn keyspace(
        &self,
        tables: &Arc<Tables>,
        id: u32,
        family: &Family,
    ) -> Result<(KeyspaceDesc, u64)> {
        let name = &family.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let text = format!(
                "a column family has a name of {} bytes, keyspaces have 1 to {NAME_BYTES_MAX}; give it another",
                name.len()
            );
            return Err(Error::new(ErrorKind::NotSupported, IMPORT, text));
        }
        let sources = FamilyTables::open(self.fs, self.from, family)?;
        let options = self.keyspace_options(name, sources.operands)?;
        let linked = self.link_values(tables, family)?;
        let values = Arc::new(ValueFiles::loose(linked.values().cloned().collect()));
        let writer = self.options.table_writer(&options);
        let merge_values = MergeValues {
            files: values,
            collected: Arc::default(),
            from: options.value_files_min.unwrap_or(self.options.value_files_min),
            stamp: 0,
            compression: writer.compression,
            compression_level: writer.compression_level,
            file_bytes: FILE_TABLES.saturating_mul(self.options.table_bytes),
        };
        let output = OutputOptions {
            keyspace: id,
            keyspace_name: name.clone(),
            level: LEVELS as u8,
            site: FileSite::default(),
            tier: OutputTier::Ssd,
            values_tier: OutputTier::Ssd,
            writes: Writes::Levels,
            values_for: Writes::Levels,
            table_bytes: self.options.table_bytes,
            inputs: u64::MAX,
            cuts: Arc::from([]),
            writer,
            rate: None,
            warm_most: 0,
        };
        let limits = OutputLimits { floor: None, ceiling: None };
        let output = Output::new(tables, output, None, limits, Ranges::default(), merge_values);
        let (made, keys) = FamilyMerge::new(name, sources, output).run()?;
        let desc = self.describe(tables, name, &options, &made, &linked)?;
        Ok((desc, keys))
    }

    /// The keyspace's options: what the database says of the family, and what the caller knows.
    fn keyspace_options(&self, name: &str, operands: u64) -> Result<KeyspaceOptions> {
        let known = self.families.get(name);
        let theirs = known.and_then(|family| family.merge_operator.as_deref());
        let ours = theirs.and_then(operators::of_rocksdb).map(|operator| operator.name());
        let operator = match self.hints.merge_operators.get(name) {
            Some(hint) => Some(hint.clone()),
            None => ours.map(std::borrow::Cow::into_owned),
        };
        if operands > 0 && operator.is_none() {
            let theirs = theirs.unwrap_or("of a name that the database does not tell");
            let text = format!(
                "column family {name} has operands of a merge operator, {theirs}, that no store has by that name; say which \
                 one combines them (--merge-operator {name}=OPERATOR), or compact the family with RocksDB first"
            );
            return Err(Error::new(ErrorKind::NotSupported, IMPORT, text));
        }
        let value_files_min = known.and_then(|family| family.blobs_from);
        Ok(KeyspaceOptions { merge_operator: operator, value_files_min, ..KeyspaceOptions::new() })
    }

    /// N3: all value files of a family, under their numbers. Each is read from front to back.
    fn link_values(
        &self,
        tables: &Arc<Tables>,
        family: &Family,
    ) -> Result<BTreeMap<u64, Arc<ValueFile>>> {
        let mut linked = BTreeMap::new();
        for number in family.live_blobs() {
            let place = FilePlace { tier: OWN, name: FileName::Values(number) };
            let (from, to) = (self.from.join(place.name.text()), tables.path(place));
            let source = self.fs.open(&from)?;
            let values = walk_values(&File(Arc::clone(&source)), |_| ())?;
            if self.fs.link(&from, &to).is_err() {
                copy(&**self.fs, &*source, &to)?;
            }
            let (len, sum) = (source.len(), sum(&*self.fs.open(&to)?)?);
            let desc =
                ValueFileDesc { id: number, extent: None, tier: place.tier, len, sum, values };
            linked.insert(number, tables.claim_values(&desc)?);
        }
        Ok(linked)
    }

    /// What the manifest says of the keyspace. Value files that nothing refers to go.
    fn describe(
        &self,
        tables: &Tables,
        name: &str,
        options: &KeyspaceOptions,
        made: &[NewTable],
        linked: &BTreeMap<u64, Arc<ValueFile>>,
    ) -> Result<KeyspaceDesc> {
        let broken = |broken: Broken| {
            let text = format!("an import breaks the rule that {broken}; report this");
            Error::new(ErrorKind::Internal, IMPORT, text)
        };
        made.iter().for_each(belong_to_copy);
        let mut desc = KeyspaceDesc::new(name, &StoredOptions::without_tiers(options));
        let used: BTreeMap<u64, &Arc<ValueFile>> =
            made.iter().flat_map(|new| &new.values).map(|file| (file.desc.id, file)).collect();
        for file in used.values() {
            desc.levels.add_value_file(&file.desc).map_err(broken)?;
        }
        made.iter().try_for_each(|new| desc.levels.add(&new.desc)).map_err(broken)?;
        for number in linked.keys().filter(|number| !used.contains_key(number)) {
            let place = FilePlace { tier: OWN, name: FileName::Values(*number) };
            self.fs.remove(&tables.path(place))?;
        }
        Ok(desc)
    }
}

fn sum(file: &dyn ssd::Read) -> Result<u64> {
    let (mut sum, mut at, len) = (Sum::default(), 0, file.len());
    let mut buffer = vec![0; CHUNK.min(len as usize)];
    while at < len {
        let piece = buffer.len().min((len - at) as usize);
        file.read_at(at, &mut buffer[..piece])?;
        sum.update(&buffer[..piece]);
        at += piece as u64;
    }
    Ok(sum.value())
}

/// N2 of one column family.
struct FamilyMerge<'f> {
    name: &'f str,
    merging: MergingIterator<TableChain>,
    ranges: Ranges,
    output: Output,
    /// The key under way, and what of it counts, newest first.
    key: Option<Vec<u8>>,
    counts: Vec<Counted>,
    /// What is older does not count.
    settled: bool,
    keys: u64,
    /// Value files that a value was read of.
    tried: BTreeSet<u64>,
}

struct Counted {
    seq: Seq,
    kind: EntryKind,
    value: Vec<u8>,
}

impl<'f> FamilyMerge<'f> {
    fn new(name: &'f str, tables: FamilyTables, output: Output) -> FamilyMerge<'f> {
        let deletes = tables.deletes.iter().map(stretch);
        FamilyMerge {
            name,
            ranges: Ranges::needed(deletes, &Horizon::only(Seq::MAX)),
            merging: MergingIterator::new(&(), tables.sources),
            output,
            key: None,
            counts: Vec::new(),
            settled: false,
            keys: 0,
            tried: BTreeSet::new(),
        }
    }

    /// The new tables, and how many keys they have.
    fn run(mut self) -> Result<(Vec<NewTable>, u64)> {
        while let Some(source) = self.merging.source() {
            let Some((head, (kind, value))) = source.head(&()).zip(source.entry()) else { break };
            if self.key.as_deref() != Some(head.key) {
                if self.key.as_deref().is_some_and(|last| last > head.key) {
                    return Err(self.out_of_order(head.key));
                }
                // Only now is all of the key before known.
                let next = head.key.to_vec();
                let first = (head.seq, kind, value.to_vec());
                self.end_key()?;
                self.key = Some(next);
                self.settled = false;
                self.count(first.0, first.1, &first.2)?;
            } else if !self.settled {
                let (seq, value) = (head.seq, value.to_vec());
                self.count(seq, kind, &value)?;
            }
            self.merging.advance(&())?;
        }
        self.end_key()?;
        Ok((self.output.end()?, self.keys))
    }

    /// Takes the next older version of the key.
    fn count(&mut self, seq: Seq, kind: EntryKind, value: &[u8]) -> Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        if self.ranges.newest(key, Seq::MAX) > seq {
            self.settled = true;
            return Ok(());
        }
        let apart = (kind == EntryKind::ValueRef).then(|| ValueRef::decode(value)).flatten();
        let len = apart.map_or(value.len() as u64, |of| of.len);
        if key.len() > KEY_BYTES_MAX || len > VALUE_BYTES_MAX as u64 {
            let text = format!(
                "column family {} has a key of {} and a value of {len} bytes; at most {KEY_BYTES_MAX} and {VALUE_BYTES_MAX}",
                self.name,
                key.len()
            );
            return Err(Error::new(ErrorKind::LimitExceeded, IMPORT, text));
        }
        match kind {
            EntryKind::Delete | EntryKind::SingleDelete => self.settled = true,
            EntryKind::Merge => {}
            EntryKind::Value => self.settled = true,
            EntryKind::ValueRef => {
                self.settled = true;
                let Some(of) = apart else {
                    let text = format!(
                        "column family {}: key {} has a value of the old BlobDB; compact it with a RocksDB that has it \
                         (stackable BlobDB) and without it",
                        self.name,
                        base::bytes::shown(key)
                    );
                    return Err(Error::new(ErrorKind::NotSupported, IMPORT, text));
                };
                // The first value of each file tells whether this build reads them.
                if self.tried.insert(of.file) {
                    self.output.values.fetch(key, value)?;
                }
            }
        }
        if !kind.is_deletion() {
            self.counts.push(Counted { seq, kind, value: value.to_vec() });
        }
        Ok(())
    }

    /// Writes what counts of the key.
    fn end_key(&mut self) -> Result<()> {
        let Some(key) = self.key.take() else { return Ok(()) };
        if !self.counts.is_empty() {
            self.keys += 1;
            self.output.cut_before(&key)?;
        }
        for counted in self.counts.drain(..) {
            let warmth = Warmth::Unknown;
            self.output.add(&key, counted.seq, counted.kind, &counted.value, warmth)?;
        }
        Ok(())
    }

    #[cold]
    fn out_of_order(&self, key: &[u8]) -> Error {
        let text = format!(
            "column family {} has key {} in a table whose bounds are below it; restore the manifest",
            self.name,
            base::bytes::shown(key)
        );
        Error::corruption(IMPORT, text)
    }
}
