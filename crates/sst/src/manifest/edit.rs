//! Edits: what one record of a `MANIFEST` says.

use base::codec::{Reader, put_varint};

/// Tags, as RocksDB numbers them.
mod tag {
    pub const COMPARATOR: u64 = 1;
    pub const LOG_NUMBER: u64 = 2;
    pub const NEXT_FILE: u64 = 3;
    pub const LAST_SEQ: u64 = 4;
    pub const COMPACT_CURSOR: u64 = 5;
    pub const DELETED_FILE: u64 = 6;
    pub const NEW_FILE: u64 = 7;
    pub const PREV_LOG_NUMBER: u64 = 9;
    pub const MIN_LOG_KEPT: u64 = 10;
    pub const NEW_FILE_2: u64 = 100;
    pub const NEW_FILE_3: u64 = 102;
    pub const NEW_FILE_4: u64 = 103;
    pub const FAMILY: u64 = 200;
    pub const FAMILY_ADD: u64 = 201;
    pub const FAMILY_DROP: u64 = 202;
    pub const FAMILY_MAX: u64 = 203;
    pub const GROUP: u64 = 300;
    pub const BLOB_FILE: u64 = 400;
    pub const BLOB_GARBAGE: u64 = 401;
    /// Tags with this bit may be passed over: a length and so many bytes follow.
    pub const SAFE: u64 = 1 << 13;
    pub const DB_ID: u64 = SAFE + 1;
    pub const BLOB_FILE_BEFORE: u64 = SAFE + 2;
    pub const BLOB_GARBAGE_BEFORE: u64 = SAFE + 3;
    pub const WAL_ADDED: u64 = SAFE + 4;
    pub const WAL_DELETED: u64 = SAFE + 5;
}

/// Tags behind a new file.
mod field {
    pub const END: u64 = 1;
    pub const MIN_LOG_KEPT: u64 = 3;
    pub const OLDEST_BLOB_FILE: u64 = 4;
    /// Tags with this bit must be known.
    pub const UNSAFE: u64 = 1 << 6;
    pub const PATH: u64 = UNSAFE + 1;
}

/// One record: what changes. Numbers that it does not tell are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Number of the column family that it is about.
    pub family: u32,
    /// Whether that family comes or goes.
    pub change: Option<FamilyChange>,
    /// Identity of the database.
    pub db_id: Option<String>,
    /// Name of the order of keys.
    pub comparator: Option<String>,
    /// Logs of lower numbers have nothing of the family that tables lack.
    pub log_number: Option<u64>,
    /// No file has this number or a higher one.
    pub next_file: Option<u64>,
    /// No entry has a higher sequence number.
    pub last_seq: Option<u64>,
    /// No family had a higher number.
    pub family_max: Option<u32>,
    /// Logs of lower numbers are not needed by any family.
    pub min_log_kept: Option<u64>,
    /// Tables that go.
    pub deleted_files: Vec<LevelFile>,
    /// Tables that come, behind those that go.
    pub new_files: Vec<NewFile>,
    /// Value files that come, before tables do.
    pub blob_files: Vec<BlobFile>,
    /// What value files have lost.
    pub blob_garbage: Vec<BlobGarbage>,
    /// It counts only with the edits behind it, so many of them.
    pub group_left: Option<u32>,
}

/// What becomes of a column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// It comes, under this name.
    Add(String),
    /// It goes, with all its tables.
    Drop,
}

/// A table in a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelFile {
    /// Level, from 0.
    pub level: u32,
    /// Number of the file.
    pub number: u64,
}

/// A table, as an edit adds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Where it is.
    pub at: LevelFile,
    /// Which of several directories it lies in; 0: that of the database.
    pub path: u64,
    /// Bytes of the file.
    pub len: u64,
    /// Smallest internal key: user key, then the sequence number times 256 plus the kind.
    pub smallest: Vec<u8>,
    /// Largest internal key; where a range deletion ends the table, its end with the highest sequence number.
    pub largest: Vec<u8>,
    /// Smallest sequence number.
    pub min_seq: u64,
    /// Largest sequence number; that of all entries of a table that was ingested.
    pub max_seq: u64,
    /// Number of the oldest value file that it refers to.
    pub oldest_blob_file: Option<u64>,
}

/// A value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFile {
    /// Number of the file.
    pub number: u64,
    /// Values in it.
    pub values: u64,
    /// Bytes of its records.
    pub bytes: u64,
}

/// What no table refers to any more of a value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobGarbage {
    /// Number of the file.
    pub number: u64,
    /// Values.
    pub values: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'r>(reader: &mut Reader<'r>) -> Option<&'r [u8]> {
    let len = usize::try_from(reader.varint()?).ok()?;
    reader.take(len)
}

fn take_text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(take_bytes(reader)?.to_vec()).ok()
}

fn take_u32(reader: &mut Reader<'_>) -> Option<u32> {
    reader.varint()?.try_into().ok()
}

/// An internal key: a user key and eight bytes.
fn take_key(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    take_bytes(reader).filter(|key| key.len() >= crate::key::TRAILER_LEN).map(<[u8]>::to_vec)
}

fn take_level_file(reader: &mut Reader<'_>) -> Option<LevelFile> {
    Some(LevelFile { level: take_u32(reader)?, number: reader.varint()? })
}

const CUT: &str = "an edit is cut off or malformed";

impl VersionEdit {
    /// Its record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let put_text = |out: &mut Vec<u8>, tag: u64, text: &Option<String>| {
            if let Some(text) = text {
                put_varint(out, tag);
                put_bytes(out, text.as_bytes());
            }
        };
        let put_number = |out: &mut Vec<u8>, tag: u64, number: Option<u64>| {
            if let Some(number) = number {
                [tag, number].into_iter().for_each(|word| put_varint(out, word));
            }
        };
        put_text(&mut out, tag::DB_ID, &self.db_id);
        put_text(&mut out, tag::COMPARATOR, &self.comparator);
        put_number(&mut out, tag::LOG_NUMBER, self.log_number);
        put_number(&mut out, tag::NEXT_FILE, self.next_file);
        put_number(&mut out, tag::LAST_SEQ, self.last_seq);
        put_number(&mut out, tag::FAMILY_MAX, self.family_max.map(u64::from));
        put_number(&mut out, tag::MIN_LOG_KEPT, self.min_log_kept);
        for LevelFile { level, number } in &self.deleted_files {
            let words = [tag::DELETED_FILE, u64::from(*level), *number];
            words.into_iter().for_each(|word| put_varint(&mut out, word));
        }
        self.new_files.iter().for_each(|file| file.put(&mut out));
        for BlobFile { number, values, bytes } in &self.blob_files {
            let words = [tag::BLOB_FILE, *number, *values, *bytes];
            words.into_iter().for_each(|word| put_varint(&mut out, word));
            // No checksum of the whole file is known, and no field follows.
            out.extend_from_slice(&[0, 0, 0]);
        }
        for BlobGarbage { number, values, bytes } in &self.blob_garbage {
            let words = [tag::BLOB_GARBAGE, *number, *values, *bytes, 0];
            words.into_iter().for_each(|word| put_varint(&mut out, word));
        }
        put_number(&mut out, tag::FAMILY, (self.family != 0).then_some(self.family.into()));
        match &self.change {
            Some(FamilyChange::Add(name)) => {
                put_varint(&mut out, tag::FAMILY_ADD);
                put_bytes(&mut out, name.as_bytes());
            }
            Some(FamilyChange::Drop) => put_varint(&mut out, tag::FAMILY_DROP),
            None => {}
        }
        put_number(&mut out, tag::GROUP, self.group_left.map(u64::from));
        out
    }

    /// The edit that a record is.
    ///
    /// # Errors
    /// What is wrong with it, or the name of what this build does not know.
    pub fn decode(record: &[u8]) -> Result<VersionEdit, String> {
        let mut edit = VersionEdit::default();
        let mut reader = Reader::new(record);
        while reader.remaining() > 0 {
            let tag = reader.varint().ok_or(CUT)?;
            edit.take(tag, &mut reader)?;
        }
        Ok(edit)
    }

    fn take(&mut self, tag: u64, reader: &mut Reader<'_>) -> Result<(), String> {
        match tag {
            tag::COMPARATOR => self.comparator = Some(take_text(reader).ok_or(CUT)?),
            tag::DB_ID => self.db_id = Some(take_text(reader).ok_or(CUT)?),
            tag::LOG_NUMBER => self.log_number = Some(reader.varint().ok_or(CUT)?),
            tag::NEXT_FILE => self.next_file = Some(reader.varint().ok_or(CUT)?),
            tag::LAST_SEQ => self.last_seq = Some(reader.varint().ok_or(CUT)?),
            tag::FAMILY_MAX => self.family_max = Some(take_u32(reader).ok_or(CUT)?),
            tag::MIN_LOG_KEPT => self.min_log_kept = Some(reader.varint().ok_or(CUT)?),
            tag::PREV_LOG_NUMBER | tag::WAL_DELETED => _ = reader.varint().ok_or(CUT)?,
            tag::COMPACT_CURSOR => {
                take_u32(reader).and_then(|_level| take_key(reader)).ok_or(CUT)?;
            }
            tag::DELETED_FILE => self.deleted_files.push(take_level_file(reader).ok_or(CUT)?),
            tag::NEW_FILE | tag::NEW_FILE_2 | tag::NEW_FILE_3 => {
                self.new_files.push(NewFile::take_plain(tag, reader).ok_or(CUT)?);
            }
            tag::NEW_FILE_4 => {
                let mut file = NewFile::take_plain(tag, reader).ok_or(CUT)?;
                self.take_fields(&mut file, reader)?;
                self.new_files.push(file);
            }
            tag::FAMILY => self.family = take_u32(reader).ok_or(CUT)?,
            tag::FAMILY_ADD => {
                self.change = Some(FamilyChange::Add(take_text(reader).ok_or(CUT)?));
            }
            tag::FAMILY_DROP => self.change = Some(FamilyChange::Drop),
            tag::GROUP => self.group_left = Some(take_u32(reader).ok_or(CUT)?),
            tag::BLOB_FILE | tag::BLOB_FILE_BEFORE => {
                self.blob_files.push(take_blob_file(reader)?);
            }
            tag::BLOB_GARBAGE | tag::BLOB_GARBAGE_BEFORE => {
                self.blob_garbage.push(take_blob_garbage(reader)?);
            }
            tag::WAL_ADDED => take_wal(reader).ok_or(CUT)?,
            _ if tag & tag::SAFE != 0 => _ = take_bytes(reader).ok_or(CUT)?,
            _ => return Err(format!("tag {tag} is of no edit that this build knows")),
        }
        Ok(())
    }

    /// The fields behind a new file.
    fn take_fields(&mut self, file: &mut NewFile, reader: &mut Reader<'_>) -> Result<(), String> {
        loop {
            let tag = reader.varint().ok_or(CUT)?;
            if tag == field::END {
                return Ok(());
            }
            let mut value = Reader::new(take_bytes(reader).ok_or(CUT)?);
            match tag {
                field::PATH => file.path = value.u8().ok_or(CUT)?.into(),
                field::OLDEST_BLOB_FILE => {
                    file.oldest_blob_file = Some(value.varint().ok_or(CUT)?);
                }
                field::MIN_LOG_KEPT => self.min_log_kept = Some(value.u64().ok_or(CUT)?),
                _ if tag & field::UNSAFE != 0 => {
                    return Err(format!("field {tag} of a table is none that this build knows"));
                }
                _ => {}
            }
        }
    }
}

impl NewFile {
    fn put(&self, out: &mut Vec<u8>) {
        let LevelFile { level, number } = self.at;
        let words = [tag::NEW_FILE_4, level.into(), number, self.len];
        words.into_iter().for_each(|word| put_varint(out, word));
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        [self.min_seq, self.max_seq].into_iter().for_each(|word| put_varint(out, word));
        if let Some(oldest) = self.oldest_blob_file {
            let mut value = Vec::new();
            put_varint(&mut value, oldest);
            put_varint(out, field::OLDEST_BLOB_FILE);
            put_bytes(out, &value);
        }
        if let Ok(path @ 1..) = u8::try_from(self.path) {
            put_varint(out, field::PATH);
            put_bytes(out, &[path]);
        }
        put_varint(out, field::END);
    }

    /// What stands before the fields, in whichever of four forms.
    fn take_plain(tag: u64, reader: &mut Reader<'_>) -> Option<NewFile> {
        let at = take_level_file(reader)?;
        let path = if tag == tag::NEW_FILE_3 { u64::from(take_u32(reader)?) } else { 0 };
        let (len, smallest, largest) = (reader.varint()?, take_key(reader)?, take_key(reader)?);
        let (min_seq, max_seq) = match tag {
            // RocksDB takes it for unknown.
            tag::NEW_FILE => (0, crate::SEQ_MAX.get()),
            _ => (reader.varint()?, reader.varint()?),
        };
        let oldest_blob_file = None;
        Some(NewFile { at, path, len, smallest, largest, min_seq, max_seq, oldest_blob_file })
    }
}

fn take_blob_file(reader: &mut Reader<'_>) -> Result<BlobFile, String> {
    let numbers = (|| {
        let (number, values) = (reader.varint()?, reader.varint()?);
        let file = BlobFile { number, values, bytes: reader.varint()? };
        // Method and value of a checksum.
        take_bytes(reader)?;
        take_bytes(reader)?;
        Some(file)
    })();
    let file = numbers.ok_or(CUT)?;
    take_blob_fields(reader).map(|()| file)
}

fn take_blob_garbage(reader: &mut Reader<'_>) -> Result<BlobGarbage, String> {
    let numbers = (|| {
        let (number, values) = (reader.varint()?, reader.varint()?);
        Some(BlobGarbage { number, values, bytes: reader.varint()? })
    })();
    let garbage = numbers.ok_or(CUT)?;
    take_blob_fields(reader).map(|()| garbage)
}

/// Fields behind a value file, none of them known.
fn take_blob_fields(reader: &mut Reader<'_>) -> Result<(), String> {
    loop {
        match reader.varint().ok_or(CUT)? {
            0 => return Ok(()),
            tag if tag & field::UNSAFE != 0 => {
                return Err(format!("field {tag} of a value file is none that this build knows"));
            }
            _ => _ = take_bytes(reader).ok_or(CUT)?,
        }
    }
}

/// A log that came, in the form that has no length.
fn take_wal(reader: &mut Reader<'_>) -> Option<()> {
    reader.varint()?;
    loop {
        match reader.varint()? {
            1 => return Some(()),
            2 => _ = reader.varint()?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> VersionEdit {
        VersionEdit {
            family: 3,
            change: Some(FamilyChange::Add("things".into())),
            db_id: Some("id".into()),
            comparator: Some("leveldb.BytewiseComparator".into()),
            log_number: Some(7),
            next_file: Some(300),
            last_seq: Some(1 << 50),
            family_max: Some(3),
            min_log_kept: Some(2),
            deleted_files: vec![LevelFile { level: 0, number: 200 }],
            new_files: vec![
                NewFile {
                    at: LevelFile { level: 6, number: 201 },
                    path: 0,
                    len: 70_000,
                    smallest: b"a\x01\x02\0\0\0\0\0\0".to_vec(),
                    largest: b"b\x0f\xff\xff\xff\xff\xff\xff\xff".to_vec(),
                    min_seq: 2,
                    max_seq: 500,
                    oldest_blob_file: Some(150),
                },
                NewFile {
                    at: LevelFile { level: 1, number: 202 },
                    path: 1,
                    len: 1,
                    smallest: vec![0; 8],
                    largest: vec![0; 8],
                    min_seq: 0,
                    max_seq: 0,
                    oldest_blob_file: None,
                },
            ],
            blob_files: vec![BlobFile { number: 150, values: 9, bytes: 999 }],
            blob_garbage: vec![BlobGarbage { number: 150, values: 1, bytes: 111 }],
            group_left: Some(1),
        }
    }

    #[test]
    fn edits_come_back() {
        for edit in [whole(), VersionEdit::default()] {
            assert_eq!(VersionEdit::decode(&edit.encode()), Ok(edit));
        }
        let dropped = VersionEdit { change: Some(FamilyChange::Drop), ..VersionEdit::default() };
        assert_eq!(VersionEdit::decode(&dropped.encode()), Ok(dropped));
    }

    #[test]
    fn no_bytes_make_it_panic_and_one_that_is_cut_off_is_another() {
        let (edit, bytes) = (whole(), whole().encode());
        for at in 0..bytes.len() {
            assert_ne!(VersionEdit::decode(&bytes[..at]).ok().as_ref(), Some(&edit), "cut at {at}");
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let _any = VersionEdit::decode(&bad);
            }
        }
    }

    #[test]
    fn what_is_safe_to_pass_over_is_and_nothing_else() {
        let with = |more: &[u8]| VersionEdit::decode(&[&whole().encode(), more].concat());
        let tagged = |tag: u64, rest: &[u8]| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, tag);
            bytes.extend_from_slice(rest);
            bytes
        };
        assert_eq!(with(&tagged(tag::SAFE + 77, b"\x02xy")), Ok(whole()));
        assert_eq!(with(&tagged(tag::WAL_ADDED, b"\x05\x02\x09\x01")), Ok(whole()));
        assert_eq!(with(&tagged(tag::WAL_DELETED, b"\x05")), Ok(whole()));
        assert!(with(&tagged(tag::SAFE + 77, b"\x03xy")).is_err());
        assert_eq!(
            with(&tagged(77, b"")),
            Err("tag 77 is of no edit that this build knows".into())
        );
        let file = |field: &[u8]| {
            let plain = [b"\x67\x01\x09\x07", &[8][..], &[0; 8], &[8], &[0; 8], &[1, 2]].concat();
            VersionEdit::decode(&[&plain, field, &[1]].concat())
        };
        assert_eq!(file(b"\x09\x01\x01").expect("a temperature").new_files[0].len, 7);
        assert!(file(b"\x42\x01\x01").expect_err("unknown").contains("field 66"));
    }
}
