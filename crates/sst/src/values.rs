//! Value files: values apart from their keys, in RocksDB's blob file format, version 1.
//!
//! ```text
//! header   30 bytes: magic, version, keyspace, flags, compression, two unused times
//! record   { u64 key length, u64 stored length, u64 unused, u32 checksum of these, u32 checksum of what follows, key, value }
//! footer   32 bytes: magic, number of records, two unused times, checksum
//! ```
//!
//! All checksums are masked CRC-32C, as in LevelDB. A table has a [`ValueRef`] in the place of such a value: RocksDB's blob
//! index. All values of a file are stored in one way, compressed or not; the first one decides.

use std::ops::Range;

use base::codec::{Reader, put_varint};
use base::{Error, Result};
use bytes::Bytes;

use crate::block::Block;
use crate::checksum::Checksum;
use crate::compression::{Compression, Compressor, Failure, decompress};
use crate::io::{ReadAt, Sink};

const MAGIC: u32 = 0x0024_8f37;
const VERSION: u32 = 1;
/// Bytes before the first record.
const HEADER_LEN: u64 = 30;
/// Bytes behind the last record.
const FOOTER_LEN: u64 = 32;
/// Bytes of a record before its key.
const RECORD_LEN: usize = 32;
/// Bytes of a record's lengths, which have a checksum of their own.
const LENGTHS_LEN: usize = 24;
/// The kind of a reference to a value without a time of its own.
const REFERENCE: u8 = 1;
/// Bytes that a value may have once it is decompressed.
const VALUE_MAX: u64 = 1 << 30;
/// Bytes that a file is read by when all of it is walked.
const WALK_LEN: usize = 1 << 20;

/// Where a value lies, as a table says it in the value's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRef {
    /// Number of the value file.
    pub file: u64,
    /// Offset of the stored value in it.
    pub at: u64,
    /// Bytes of the stored value.
    pub len: u64,
    /// How it is compressed, as block trailers say it.
    pub compression: u8,
}

impl ValueRef {
    /// Appends what [`ValueRef::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(REFERENCE);
        put_varint(out, self.file);
        put_varint(out, self.at);
        put_varint(out, self.len);
        out.push(self.compression);
    }

    /// The reference that `bytes` are, all of them; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<ValueRef> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != REFERENCE {
            return None;
        }
        let (file, at, len) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let compression = reader.u8()?;
        let whole = reader.remaining() == 0 && at >= HEADER_LEN + RECORD_LEN as u64;
        (whole && at.checked_add(len).is_some()).then_some(ValueRef { file, at, len, compression })
    }

    /// Where in the file the record of this value, that of a key of `key_len` bytes, lies; `None` if it cannot be there.
    pub fn record(&self, key_len: usize) -> Option<Range<u64>> {
        let start = self.at.checked_sub((RECORD_LEN + key_len) as u64)?;
        (start >= HEADER_LEN).then_some(start..self.at + self.len)
    }

    /// Where the value stands in the block that [`ValueRef::open`] makes of the record of a key of `key_len` bytes.
    pub fn within(&self, key_len: usize, block: &Block) -> Range<usize> {
        let start = if self.compression == 0 { RECORD_LEN + key_len } else { 0 };
        start..block.view().len()
    }

    /// Verifies the bytes of a record and makes a block of them, which has the value at [`ValueRef::within`].
    ///
    /// # Errors
    /// `Corruption` if they are not the record of `key`, or fail their checksums; `NotSupported` for a compression that
    /// this build is without. Both name the file, as `name` says it.
    pub fn open(&self, key: &[u8], record: Vec<u8>, name: impl Fn() -> String) -> Result<Block> {
        let value = self.verify(key, &record, &name)?;
        match self.compression {
            0 => Ok(Block::of_value(record, self.at)),
            _ => self.decompressed(key, value, name),
        }
    }

    /// The same of a record that stays where it lies; the block keeps `lender`, which is asked once for the record's bytes. They
    /// never change. What is compressed is copied all the same.
    ///
    /// # Errors
    /// As [`ValueRef::open`].
    pub fn lend<T>(&self, key: &[u8], lender: T, name: impl Fn() -> String) -> Result<Block>
    where
        T: AsRef<[u8]> + Send + 'static,
    {
        let record = Bytes::from_owner(lender);
        let value = self.verify(key, &record, &name)?;
        match self.compression {
            0 => Ok(Block::lent_value(record, self.at)),
            _ => self.decompressed(key, value, name),
        }
    }

    /// The block of a value from its [bytes](Block::bytes), as a cache has them.
    pub fn restore(&self, bytes: Vec<u8>) -> Block {
        Block::of_value(bytes, self.at)
    }

    fn decompressed(&self, key: &[u8], value: &[u8], name: impl Fn() -> String) -> Result<Block> {
        let fail = |what: &str| Err(self.damaged(key, &name(), what));
        match decompress(self.compression, value, None, VALUE_MAX) {
            Ok(value) => Ok(Block::of_value(value, self.at)),
            Err(Failure::Damaged(what)) => fail(what),
            Err(Failure::TooLong(_)) => fail("it is longer than any value"),
            Err(Failure::Unsupported { what, remedy }) => {
                let what = format!("{} has {what}, which is not supported; {remedy}", name());
                Err(Error::new(base::ErrorKind::NotSupported, "read value", what))
            }
        }
    }

    /// Verifies the bytes of a record; returns the stored value in them.
    ///
    /// # Errors
    /// As [`ValueRef::open`].
    pub fn verify<'r>(
        &self,
        key: &[u8],
        record: &'r [u8],
        name: impl Fn() -> String,
    ) -> Result<&'r [u8]> {
        let fail = |what: &str| Err(self.damaged(key, &name(), what));
        let Some(head) = RecordHead::decode(record) else {
            return fail("its lengths fail their checksum");
        };
        let stored = &record[RECORD_LEN..];
        if head.key_len != key.len() as u64 || head.len != self.len {
            return fail("it is another record");
        }
        if Checksum::Crc32c.of(stored) != head.sum {
            return fail("it fails its checksum");
        }
        stored.strip_prefix(key).map_or_else(|| fail("it is that of another key"), Ok)
    }

    /// The value of `key`, which cannot be read.
    #[cold]
    pub fn damaged(&self, key: &[u8], name: &str, what: &str) -> Error {
        let (at, len, key) = (self.at, self.len, base::bytes::shown(key));
        let text = format!(
            "the value of key {key}, {len} bytes at offset {at} of {name}, is damaged: {what}; restore the file, or save the \
             rest with `strandline repair`"
        );
        Error::corruption("read value", text)
    }
}

/// The lengths and the checksum before a record.
struct RecordHead {
    key_len: u64,
    len: u64,
    sum: u32,
}

impl RecordHead {
    fn decode(record: &[u8]) -> Option<RecordHead> {
        let lengths = record.get(..LENGTHS_LEN)?;
        let mut reader = Reader::new(record);
        let (key_len, len, _unused) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (lengths_sum, sum) = (reader.u32()?, reader.u32()?);
        (Checksum::Crc32c.of(lengths) == lengths_sum).then_some(RecordHead { key_len, len, sum })
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueSummary {
    /// Bytes of the file.
    pub len: u64,
    /// Number of values.
    pub values: u64,
}

impl ValueSummary {
    /// Bytes of all records, keys included: the file without header and footer.
    pub fn record_bytes(len: u64) -> u64 {
        len.saturating_sub(HEADER_LEN + FOOTER_LEN)
    }
}

/// Writes one value file into a sink.
#[derive(Debug)]
pub struct ValueWriter<S> {
    sink: S,
    file: u64,
    keyspace: u32,
    at: u64,
    values: u64,
    compressor: Compressor,
    /// How values are stored; `None` before the first.
    stored_as: Option<Compression>,
    record: Vec<u8>,
}

impl<S: Sink> ValueWriter<S> {
    /// A writer of file number `file` of a keyspace. Values are compressed if that saves an eighth of the first; `level` is
    /// for Zstandard.
    pub fn new(
        sink: S,
        file: u64,
        keyspace: u32,
        compression: Compression,
        level: i32,
    ) -> ValueWriter<S> {
        ValueWriter {
            sink,
            file,
            keyspace,
            at: 0,
            values: 0,
            compressor: Compressor::new(compression, level),
            stored_as: None,
            record: Vec::new(),
        }
    }

    /// Adds the value of `key`.
    ///
    /// # Errors
    /// What the sink says; `NotSupported` in a build without the compression. The writer is of no use then.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<ValueRef> {
        let kind = match self.stored_as {
            Some(kind) => kind,
            None => {
                let (kind, _) = self.compressor.pack(value)?;
                self.begin(kind)?
            }
        };
        let stored = match kind {
            Compression::None => value,
            _ => self.compressor.pack_anyway(value)?,
        };
        let (record, len) = (&mut self.record, stored.len() as u64);
        record.clear();
        record.extend_from_slice(&(key.len() as u64).to_le_bytes());
        record.extend_from_slice(&len.to_le_bytes());
        record.extend_from_slice(&0_u64.to_le_bytes());
        record.extend_from_slice(&Checksum::Crc32c.of(record).to_le_bytes());
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(key);
        record.extend_from_slice(stored);
        let sum = Checksum::Crc32c.of(&record[RECORD_LEN..]);
        record[RECORD_LEN - 4..RECORD_LEN].copy_from_slice(&sum.to_le_bytes());
        self.sink.append(record)?;
        self.at += record.len() as u64;
        self.values += 1;
        Ok(ValueRef { file: self.file, at: self.at - len, len, compression: kind as u8 })
    }

    /// Adds a whole record of another value file, which was verified, if its value is stored as those of this file are; the
    /// first one decides. `None`: it is not, and has to be added as a value.
    ///
    /// # Errors
    /// What the sink says. The writer is of no use then.
    pub fn add_record(&mut self, of: &ValueRef, record: &[u8]) -> Result<Option<ValueRef>> {
        let kind = match self.stored_as {
            Some(kind) => kind,
            None => match self.compressor.kind_of(of.compression) {
                Some(kind) => self.begin(kind)?,
                None => return Ok(None),
            },
        };
        if kind as u8 != of.compression {
            return Ok(None);
        }
        self.sink.append(record)?;
        self.at += record.len() as u64;
        self.values += 1;
        Ok(Some(ValueRef { file: self.file, at: self.at - of.len, ..*of }))
    }

    /// Writes the header: from here on values are stored in this way.
    fn begin(&mut self, kind: Compression) -> Result<Compression> {
        self.stored_as = Some(kind);
        let mut header = Vec::with_capacity(HEADER_LEN as usize);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.keyspace.to_le_bytes());
        header.extend_from_slice(&[0, kind as u8]);
        header.extend_from_slice(&[0; 16]);
        self.sink.append(&header)?;
        self.at = HEADER_LEN;
        Ok(kind)
    }

    /// Number of the file.
    pub fn file(&self) -> u64 {
        self.file
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.at
    }

    /// Bytes that the whole file would have with one more record, of so many bytes of key and stored value.
    pub fn len_with(&self, coming: u64) -> u64 {
        (self.at.max(HEADER_LEN) + RECORD_LEN as u64 + FOOTER_LEN).saturating_add(coming)
    }

    /// What takes the bytes.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The same, to ask it for room.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Writes the footer and gives the sink back, for the caller to make it durable.
    pub fn finish(mut self) -> Result<(S, ValueSummary)> {
        if self.stored_as.is_none() {
            self.begin(Compression::None)?;
        }
        let mut footer = Vec::with_capacity(FOOTER_LEN as usize);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        footer.extend_from_slice(&self.values.to_le_bytes());
        footer.extend_from_slice(&[0; 16]);
        footer.extend_from_slice(&Checksum::Crc32c.of(&footer).to_le_bytes());
        self.sink.append(&footer)?;
        let summary = ValueSummary { len: self.at + FOOTER_LEN, values: self.values };
        Ok((self.sink, summary))
    }
}

/// A record that a walk over a value file met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRecord {
    /// Offset of the record.
    pub at: u64,
    /// Whose value it is.
    pub key: Vec<u8>,
    /// Bytes of the stored value.
    pub len: u64,
}

/// Reads a whole value file: header, every record with its checksums, footer. Calls `each` for every record and returns how
/// many there are.
///
/// # Errors
/// `Corruption` at the first place that is damaged; those of reading.
pub fn walk_values(file: &impl ReadAt, mut each: impl FnMut(ValueRecord)) -> Result<u64> {
    let damaged = |at: u64, what: &str| {
        let text = format!(
            "{} is damaged at offset {at}: {what}; restore the file, or save the rest with `strandline repair`",
            file.name()
        );
        Err(Error::corruption("read values", text))
    };
    let len = file.len();
    if len < HEADER_LEN + FOOTER_LEN {
        return damaged(0, "it is shorter than a value file without values");
    }
    let mut header = [0; HEADER_LEN as usize];
    file.read_at(0, &mut header)?;
    if header[..4] != MAGIC.to_le_bytes() || header[4..8] != VERSION.to_le_bytes() {
        return damaged(0, "it does not begin as a value file does");
    }
    let end = len - FOOTER_LEN;
    let (mut at, mut values, mut record) = (HEADER_LEN, 0, Vec::new());
    while at < end {
        let head_end = at + RECORD_LEN as u64;
        record.resize(RECORD_LEN, 0);
        if head_end > end {
            return damaged(at, "a record is cut off");
        }
        file.read_at(at, &mut record)?;
        let Some(head) = RecordHead::decode(&record) else {
            return damaged(at, "lengths fail their checksum");
        };
        let rest = head.key_len.checked_add(head.len).filter(|rest| *rest <= end - head_end);
        let Some(rest) = rest else { return damaged(at, "a record is longer than the file") };
        let mut sum = 0;
        let mut key = Vec::new();
        let mut done = 0;
        while done < rest {
            let piece = (rest - done).min(WALK_LEN as u64) as usize;
            record.resize(piece, 0);
            file.read_at(head_end + done, &mut record)?;
            let of_key = (head.key_len.saturating_sub(done) as usize).min(piece);
            key.extend_from_slice(&record[..of_key]);
            sum = crc32c::crc32c_append(sum, &record);
            done += piece as u64;
        }
        if crate::checksum::masked(sum) != head.sum {
            return damaged(at, "a value fails its checksum");
        }
        each(ValueRecord { at, key, len: head.len });
        values += 1;
        at = head_end + rest;
    }
    let mut footer = [0; FOOTER_LEN as usize];
    file.read_at(end, &mut footer)?;
    let (body, sum) = footer.split_at(FOOTER_LEN as usize - 4);
    let whole = body[..4] == MAGIC.to_le_bytes() && Checksum::Crc32c.of(body).to_le_bytes() == sum;
    if !whole || body[4..12] != u64::to_le_bytes(values) {
        return damaged(end, "the footer is not that of the records before it");
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use base::ErrorKind;

    use super::*;

    fn value(number: u32) -> Vec<u8> {
        (0..100 + number).flat_map(|at| (at / 9 * number).to_le_bytes()).collect()
    }

    fn noise(number: u32) -> Vec<u8> {
        let mut random = base::random::Rng::new(number.into());
        (0..500).map(|_| random.below(256) as u8).collect()
    }

    fn written(of: fn(u32) -> Vec<u8>, compression: Compression) -> (Vec<u8>, Vec<ValueRef>) {
        let mut writer = ValueWriter::new(Vec::new(), 7, 3, compression, 0);
        let add = |number: u32| writer.add(&number.to_be_bytes(), &of(number)).expect("add");
        let refs: Vec<ValueRef> = (0..50).map(add).collect();
        let (file, summary) = writer.finish().expect("finish");
        assert_eq!(summary, ValueSummary { len: file.len() as u64, values: 50 });
        (file, refs)
    }

    fn read(file: &[u8], of: &ValueRef, key: &[u8]) -> Result<Vec<u8>> {
        let range = of.record(key.len()).expect("it may be there");
        let record = file[range.start as usize..range.end as usize].to_vec();
        let value = |block: &Block| block.bytes()[of.within(key.len(), block)].to_vec();
        let lent = of.lend(key, record.clone(), || "the file".into());
        let block = of.open(key, record, || "the file".into())?;
        let lent = lent.expect("what is lent is read as what is copied");
        assert_eq!(value(&lent), value(&block));
        // A cache charges for bytes that are the block's own.
        let own = value(&block).len();
        assert!(block.charge() >= own && (lent.charge() < own) == (of.compression == 0));
        Ok(value(&block))
    }

    #[test]
    fn values_come_back_however_they_are_stored() {
        for compression in Compression::AVAILABLE.iter().copied() {
            for of in [value, noise] {
                let (file, refs) = written(of, compression);
                let shrinks = of(1) == value(1) && compression != Compression::None;
                let kind = if shrinks { compression } else { Compression::None };
                for (number, each) in (0_u32..).zip(&refs) {
                    let mut bytes = Vec::new();
                    each.encode(&mut bytes);
                    assert_eq!(ValueRef::decode(&bytes), Some(*each));
                    assert!((0..bytes.len()).all(|at| ValueRef::decode(&bytes[..at]).is_none()));
                    assert_eq!((each.file, each.compression), (7, kind as u8));
                    assert_eq!(read(&file, each, &number.to_be_bytes()).expect("read"), of(number));
                }
                let mut keys = 0_u32;
                let walked = walk_values(&file, |record| {
                    assert_eq!(record.key, keys.to_be_bytes());
                    keys += 1;
                });
                assert_eq!((walked.expect("whole"), keys), (50, 50));
            }
        }
    }

    #[test]
    fn records_are_taken_over_as_they_are() {
        for (compression, same) in [(Compression::Lz4, true), (Compression::Snappy, false)] {
            let (file, refs) = written(value, Compression::Lz4);
            let mut writer = ValueWriter::new(Vec::new(), 8, 0, compression, 0);
            writer.add(b"first", &value(9)).expect("add");
            for (number, of) in (0_u32..).zip(&refs) {
                let key = number.to_be_bytes();
                let range = of.record(key.len()).expect("it may be there");
                let record = &file[range.start as usize..range.end as usize];
                of.verify(&key, record, || "the file".into()).expect("whole");
                let taken = writer.add_record(of, record).expect("add");
                assert_eq!(taken.is_some(), same);
                if let Some(taken) = taken {
                    assert_eq!(read(&writer.sink, &taken, &key).expect("read"), value(number));
                }
            }
            let (file, summary) = writer.finish().expect("finish");
            assert_eq!(walk_values(&file, |_| ()).expect("whole"), summary.values);
        }
    }

    #[test]
    fn one_that_does_not_shrink_is_stored_as_all_of_its_file() {
        let mut writer = ValueWriter::new(Vec::new(), 1, 0, Compression::Lz4, 0);
        let first = writer.add(b"a", &value(1)).expect("add");
        let second = writer.add(b"b", &noise(1)).expect("add");
        assert_eq!(first.compression, second.compression);
        let (file, _) = writer.finish().expect("finish");
        assert_eq!(read(&file, &second, b"b").expect("read"), noise(1));
    }

    #[test]
    fn any_change_is_damage() {
        let (file, refs) = written(value, Compression::Lz4);
        let (of, key) = (refs[3], 3_u32.to_be_bytes());
        let range = of.record(key.len()).expect("it may be there");
        for at in range {
            let mut bad = file.clone();
            bad[at as usize] ^= 4;
            let refused = read(&bad, &of, &key).expect_err("a change is damage");
            assert_eq!(refused.kind(), ErrorKind::Corruption);
            assert!(refused.context().contains("the file"), "{refused}");
        }
        assert!(read(&file, &of, &4_u32.to_be_bytes()).is_err(), "another key");
        for at in 0..file.len() {
            assert!(walk_values(&file[..at].to_vec(), |_| ()).is_err(), "cut at {at}");
            let unused = (8..30).contains(&at);
            let mut bad = file.clone();
            bad[at] ^= 4;
            assert_eq!(walk_values(&bad, |_| ()).is_ok(), unused, "changed at {at}");
        }
    }

    /// What RocksDB writes for the same: one value, `v`, of key `k`, of column family 5, in file 9.
    #[test]
    fn the_bytes_are_those_of_rocksdb() {
        let mut writer = ValueWriter::new(Vec::new(), 9, 5, Compression::None, 0);
        let of = writer.add(b"k", b"v").expect("add");
        let (file, _) = writer.finish().expect("finish");
        assert_eq!(file[..18], *b"\x37\x8f\x24\0\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0");
        assert_eq!(file[30..54], *b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!((file.len(), &file[62..64], of.at), (96, &b"kv"[..], 63));
        let mut bytes = Vec::new();
        of.encode(&mut bytes);
        assert_eq!(bytes, b"\x01\x09\x3f\x01\x00");
    }
}
