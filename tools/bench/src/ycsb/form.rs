//! Records as keys and values.
//!
//! A record is one value, its fields one behind the other, as YCSB's binding of RocksDB has it: to change one field the
//! whole record is read and written. Each field tells which record it is of, so that what is read can be checked.

use super::Ycsb;
use crate::data::keys::Keys;
use crate::data::rng::Rng;
use crate::data::values::{Marking, Source, Values, check_len};

/// Bytes at the begin of a record that tell its number.
const NUMBER: usize = 8;

/// How much of a record that is read is compared with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Which record it is of, and its length.
    Begin,
    /// All of it.
    Whole,
}

/// What records look like.
#[derive(Clone, Copy, Debug)]
pub struct RecordForm<'a> {
    pub(super) ycsb: &'a Ycsb,
    keys: Keys,
    value_size: usize,
    field_len: usize,
    source: &'a Source,
    look: Look,
}

impl<'a> RecordForm<'a> {
    /// Records of `value_size` bytes, cut from `source`.
    pub fn new(
        ycsb: &'a Ycsb,
        keys: Keys,
        value_size: usize,
        source: &'a Source,
        look: Look,
    ) -> RecordForm<'a> {
        let field_len = value_size.div_ceil(ycsb.fields).max(1);
        RecordForm { ycsb, keys, value_size, field_len, source, look }
    }

    /// The same, compared as `look` says.
    pub fn looked_at(self, look: Look) -> RecordForm<'a> {
        RecordForm { look, ..self }
    }

    /// What thread `thread` makes values of.
    pub(super) fn values(&self, thread: usize) -> Values<'a> {
        self.source.values(thread, Marking::Telling)
    }

    pub(super) fn write_key(&self, record: u64, key: &mut Vec<u8>) {
        self.keys.write(self.ycsb.order.key_number(record), key);
    }

    /// Writes new fields of `record` into `value`, replacing what is there.
    pub(super) fn write_value(&self, record: u64, values: &mut Values<'_>, value: &mut Vec<u8>) {
        value.clear();
        while value.len() < self.value_size {
            let len = self.field_len.min(self.value_size - value.len());
            values.append(record, len, value);
        }
    }

    /// Writes a new field of `record`, any of them, into `value`.
    pub(super) fn change_field(
        &self,
        record: u64,
        values: &mut Values<'_>,
        rng: &mut Rng,
        value: &mut [u8],
    ) {
        let fields = value.len().div_ceil(self.field_len);
        if let Some(field) = value.chunks_mut(self.field_len).nth(rng.index(fields)) {
            field.copy_from_slice(values.sized(record, field.len()));
        }
    }

    /// Whether this is a value of `record`.
    pub(super) fn check(&self, record: u64, value: &[u8]) -> Result<(), String> {
        check_len(value, self.value_size).map_err(|error| format!("record {record}: {error}"))?;
        let tells = match self.look {
            Look::Whole => {
                value.chunks(self.field_len).all(|field| self.source.tells(record, field))
            }
            Look::Begin => {
                let begin = value.len().min(self.field_len).min(NUMBER);
                self.source.tells(record, &value[..begin])
            }
        };
        if tells {
            Ok(())
        } else {
            Err(format!("record {record}: the value is not one of its own"))
        }
    }

    /// Whether an entry that a scan finds is a record; which one, only [`Look::Whole`] looks.
    pub(super) fn check_entry(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        match self.look {
            Look::Whole => self.check_whole(key, value).map(drop),
            Look::Begin => check_len(value, self.value_size),
        }
    }

    /// The number of the record that an entry is, if its fields are long enough to tell it.
    pub(super) fn check_whole(&self, key: &[u8], value: &[u8]) -> Result<Option<u64>, String> {
        let number = value.first_chunk().filter(|_| self.field_len >= NUMBER);
        let Some(number) = number else {
            return check_len(value, self.value_size).map(|()| None);
        };
        let (record, mut wanted) = (u64::from_le_bytes(*number), Vec::new());
        self.write_key(record, &mut wanted);
        if wanted != key {
            return Err(format!("record {record}: a scan finds it under the key {key:?}"));
        }
        self.check(record, value)?;
        Ok(Some(record))
    }
}
