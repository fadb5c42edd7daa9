//! What a database of RocksDB has, as its manifest tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{Error, ErrorKind, Result};
use ssd::Fs;
use sst::SEQ_MAX;
use sst::manifest::{BlobFile, FamilyChange, NewFile, VersionEdit, read_log};

use super::import::IMPORT;
use super::{BYTEWISE, CURRENT};

/// A database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Database {
    /// By their numbers.
    pub families: BTreeMap<u32, Family>,
    pub last_seq: u64,
    pub next_file: u64,
    /// Logs of lower numbers have nothing that tables lack.
    pub min_log_kept: u64,
}

/// A column family.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub name: String,
    pub log_number: u64,
    comparator: Option<String>,
    /// Tables, by their numbers.
    pub files: BTreeMap<u64, NewFile>,
    /// Value files, by their numbers, those that went unsaid included.
    blobs: BTreeMap<u64, BlobState>,
}

/// A value file, and how many of its values no table refers to.
#[derive(Debug, PartialEq, Eq)]
struct BlobState {
    file: BlobFile,
    garbage: u64,
}

impl Family {
    /// Numbers of the value files that are still there. No edit says that one goes: it does when all of it is garbage and it is
    /// the oldest of no table, or when it is older than the oldest of all tables.
    pub(super) fn live_blobs(&self) -> Vec<u64> {
        let oldest: BTreeSet<u64> =
            self.files.values().filter_map(|file| file.oldest_blob_file).collect();
        let Some(first) = oldest.first() else { return Vec::new() };
        let from_first = self.blobs.range(first..);
        let lives = |(number, state): &(&u64, &BlobState)| {
            state.garbage < state.file.values || oldest.contains(number)
        };
        from_first.filter(lives).map(|(number, _)| *number).collect()
    }
}

impl Database {
    /// Reads the manifest that the database in `dir` has now.
    ///
    /// # Errors
    /// `NotFound` if there is no database; `Corruption` if its manifest is damaged or contradicts itself; `NotSupported` for
    /// what no store can have.
    pub(super) fn read(fs: &dyn Fs, dir: &Path) -> Result<Database> {
        let current = dir.join(CURRENT);
        let bytes = read_file(fs, &current).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let text =
                    format!("no database of RocksDB at {}; name its directory", dir.display());
                Error::new(ErrorKind::NotFound, IMPORT, text)
            }
            _ => error,
        })?;
        let name = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        let is_manifest = |name: &&str| {
            let number = name.strip_prefix("MANIFEST-");
            number.is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
            })
        };
        let Some(name) = name.filter(is_manifest) else {
            let text = format!("{} names no manifest; restore it", current.display());
            return Err(Error::corruption(IMPORT, text));
        };
        let path = dir.join(name);
        let shown = path.display().to_string();
        let records = read_log(&read_file(fs, &path)?, &shown)?;
        Database::of_records(&records, &shown)
    }

    /// What the records of a manifest come to; `name` is what messages call it.
    pub(super) fn of_records(records: &[Vec<u8>], name: &str) -> Result<Database> {
        let (mut database, mut told) = (Database::default(), Told::default());
        database.families.insert(0, Family { name: "default".into(), ..Family::default() });
        let wrong = |at: usize, what: &str| {
            Error::corruption(IMPORT, format!("edit {at} of {name}: {what}; restore the file"))
        };
        let mut group_left = 0;
        for (at, record) in records.iter().enumerate() {
            let edit = VersionEdit::decode(record).map_err(|what| {
                let text = format!(
                    "edit {at} of {name}: {what}; use the RocksDB that wrote it to make another"
                );
                Error::new(ErrorKind::NotSupported, IMPORT, text)
            })?;
            group_left = edit.group_left.unwrap_or_default();
            database.apply(edit, &mut told).map_err(|what| wrong(at, what))?;
        }
        if group_left > 0 {
            return Err(wrong(records.len(), "a group of edits is not whole"));
        }
        if !(told.log_number && told.next_file && told.last_seq) {
            return Err(wrong(records.len(), "it lacks the number of a log, a file or an entry"));
        }
        database.check(name).map(|()| database)
    }

    fn apply(&mut self, edit: VersionEdit, told: &mut Told) -> Result<(), &'static str> {
        told.log_number |= edit.log_number.is_some();
        told.next_file |= edit.next_file.is_some();
        told.last_seq |= edit.last_seq.is_some();
        self.next_file = self.next_file.max(edit.next_file.unwrap_or_default());
        self.last_seq = self.last_seq.max(edit.last_seq.unwrap_or_default());
        self.min_log_kept = self.min_log_kept.max(edit.min_log_kept.unwrap_or_default());
        match &edit.change {
            Some(FamilyChange::Add(name)) => {
                let fresh = Family { name: name.clone(), ..Family::default() };
                if self.families.insert(edit.family, fresh).is_some() {
                    return Err("a column family comes twice");
                }
            }
            Some(FamilyChange::Drop) => {
                let dropped = self.families.remove(&edit.family);
                return dropped.map(drop).ok_or("a column family goes that is not there");
            }
            None => {}
        }
        let Some(family) = self.families.get_mut(&edit.family) else {
            return Err("it is about a column family that is not there");
        };
        family.log_number = family.log_number.max(edit.log_number.unwrap_or_default());
        family.comparator = edit.comparator.or(family.comparator.take());
        for file in edit.blob_files {
            if family.blobs.insert(file.number, BlobState { file, garbage: 0 }).is_some() {
                return Err("a value file comes twice");
            }
        }
        for lost in &edit.blob_garbage {
            let state = family.blobs.get_mut(&lost.number);
            let Some(state) = state else {
                return Err("a value file lost values that is not there");
            };
            state.garbage = state.garbage.saturating_add(lost.values);
        }
        for gone in &edit.deleted_files {
            match family.files.remove(&gone.number) {
                Some(file) if file.at == *gone => {}
                _ => return Err("a table goes that is not there"),
            }
        }
        for file in edit.new_files {
            if family.files.insert(file.at.number, file).is_some() {
                return Err("a table comes twice");
            }
        }
        Ok(())
    }

    /// Refuses what no store can have.
    fn check(&self, name: &str) -> Result<()> {
        let refused = |text: String| Err(Error::new(ErrorKind::NotSupported, IMPORT, text));
        for family in self.families.values() {
            let (label, order) = (&family.name, family.comparator.as_deref().unwrap_or(BYTEWISE));
            if order != BYTEWISE {
                return refused(format!(
                    "column family {label} orders its keys by {order}, a store by their bytes; leave it out, or write it anew \
                     in that order"
                ));
            }
            if let Some(file) = family.files.values().find(|file| file.path != 0) {
                return refused(format!(
                    "table {} of column family {label} lies in another directory (db_paths or cf_paths); bring all into one",
                    file.at.number
                ));
            }
        }
        if self.last_seq > SEQ_MAX.get() {
            let text = format!("{name} has the sequence number {}; restore it", self.last_seq);
            return Err(Error::corruption(IMPORT, text));
        }
        Ok(())
    }

    /// The first log that may have what tables lack.
    pub(super) fn first_log(&self) -> u64 {
        let of_families = self.families.values().map(|family| family.log_number).min();
        of_families.unwrap_or_default().max(self.min_log_kept)
    }
}

/// What some edit must have told.
#[derive(Default)]
struct Told {
    log_number: bool,
    next_file: bool,
    last_seq: bool,
}

/// All of a file.
pub(super) fn read_file(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use sst::manifest::{BlobGarbage, LevelFile, write_log};

    use super::*;

    fn table(level: u32, number: u64) -> NewFile {
        NewFile {
            at: LevelFile { level, number },
            path: 0,
            len: 100,
            smallest: b"a\x01\x01\0\0\0\0\0\0".to_vec(),
            largest: b"b\x01\x02\0\0\0\0\0\0".to_vec(),
            min_seq: 1,
            max_seq: 2,
            oldest_blob_file: None,
        }
    }

    fn begin() -> VersionEdit {
        VersionEdit {
            comparator: Some(BYTEWISE.into()),
            log_number: Some(4),
            next_file: Some(9),
            last_seq: Some(2),
            ..VersionEdit::default()
        }
    }

    fn read(edits: &[VersionEdit]) -> Result<Database> {
        let records: Vec<Vec<u8>> = edits.iter().map(VersionEdit::encode).collect();
        Database::of_records(&records, "it")
    }

    fn family(family: u32, change: FamilyChange) -> VersionEdit {
        VersionEdit { family, change: Some(change), ..VersionEdit::default() }
    }

    #[test]
    fn edits_add_up() {
        let adds = VersionEdit { new_files: vec![table(0, 5), table(0, 6)], ..begin() };
        let moved = VersionEdit {
            deleted_files: vec![LevelFile { level: 0, number: 5 }],
            new_files: vec![table(6, 5)],
            log_number: Some(7),
            ..VersionEdit::default()
        };
        let named = family(3, FamilyChange::Add("things".into()));
        let gone = [family(4, FamilyChange::Add("x".into())), family(4, FamilyChange::Drop)];
        let database = read(&[&[adds, named, moved][..], &gone].concat()).expect("whole");
        let names: Vec<&str> = database.families.values().map(|family| &family.name[..]).collect();
        assert_eq!(names, ["default", "things"]);
        let files = database.families[&0].files.values().map(|file| file.at);
        let at = |level, number| LevelFile { level, number };
        assert_eq!(files.collect::<Vec<_>>(), [at(6, 5), at(0, 6)]);
        assert_eq!((database.first_log(), database.next_file, database.last_seq), (0, 9, 2));
    }

    #[test]
    fn value_files_go_unsaid() {
        let blob = |number| BlobFile { number, values: 4, bytes: 400 };
        let garbage = |number, values| BlobGarbage { number, values, bytes: 100 * values };
        let file = |number, oldest| NewFile { oldest_blob_file: Some(oldest), ..table(0, number) };
        let edit = VersionEdit {
            blob_files: (20..25).map(blob).collect(),
            blob_garbage: vec![garbage(21, 4), garbage(22, 4), garbage(23, 3), garbage(24, 2)],
            new_files: vec![file(5, 23), file(6, 21)],
            ..begin()
        };
        let more = VersionEdit { blob_garbage: vec![garbage(24, 2)], ..VersionEdit::default() };
        let database = read(&[edit, more]).expect("whole");
        assert_eq!(database.families[&0].live_blobs(), [21, 23]);
        let lost = VersionEdit { blob_garbage: vec![garbage(7, 1)], ..begin() };
        assert!(read(&[lost]).expect_err("no file").to_string().contains("not there"));
    }

    #[test]
    fn contradictions_and_what_no_store_has_are_refused() {
        let gone = vec![LevelFile { level: 1, number: 5 }];
        let orders = VersionEdit { comparator: Some("mine".into()), ..begin() };
        let elsewhere = NewFile { path: 1, ..table(1, 5) };
        let cases = [
            (vec![VersionEdit::default()], "lacks"),
            (vec![begin(), VersionEdit { group_left: Some(1), ..begin() }], "not whole"),
            (vec![VersionEdit { family: 3, ..begin() }], "not there"),
            (vec![begin(), family(3, FamilyChange::Drop)], "not there"),
            (vec![begin(), family(0, FamilyChange::Add("y".into()))], "twice"),
            (vec![VersionEdit { deleted_files: gone, ..begin() }], "not there"),
            (vec![VersionEdit { new_files: vec![table(0, 5), table(1, 5)], ..begin() }], "twice"),
            (vec![orders], "by mine"),
            (vec![VersionEdit { new_files: vec![elsewhere], ..begin() }], "db_paths"),
            (vec![VersionEdit { last_seq: Some(1 << 60), ..begin() }], "sequence number"),
        ];
        for (edits, what) in cases {
            let refused = read(&edits).expect_err(what);
            assert!(refused.to_string().contains(what), "{refused}");
        }
    }

    /// An export writes all edits as one group, so that nothing of it can be missing unnoticed.
    #[test]
    fn every_cut_and_every_change_of_an_exported_manifest_is_an_error() {
        let mut edits = [
            begin(),
            family(1, FamilyChange::Add("things".into())),
            VersionEdit { family: 1, new_files: vec![table(6, 5), table(6, 6)], ..begin() },
        ];
        for (edit, left) in edits.iter_mut().zip([2, 1, 0]) {
            edit.group_left = Some(left);
        }
        let records: Vec<Vec<u8>> = edits.iter().map(VersionEdit::encode).collect();
        let log = write_log(records.iter().map(|record| &record[..]));
        let read = |log: &[u8]| {
            read_log(log, "it").and_then(|records| Database::of_records(&records, "it"))
        };
        read(&log).expect("whole");
        for at in 0..log.len() {
            assert!(read(&log[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bad = log.clone();
                bad[at] ^= 1 << bit;
                assert!(read(&bad).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
