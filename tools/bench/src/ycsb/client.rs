//! What an operation does to a store.

use super::YcsbOperation::{self, Read, ReadModifyWrite, Scan, Update};
use super::form::RecordForm;
use super::requests::RecordRequest;
use crate::data::rng::{Rng, mix};
use crate::data::values::Values;
use crate::data::ycsb::AcknowledgedCounter;

/// A store of records, in keyspaces that are numbered from 0.
pub trait RecordStore {
    /// Puts the value of `key` into the empty `value`; `false` if there is none.
    ///
    /// # Errors
    /// What the store says.
    fn get(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String>;

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<(), String>;

    /// Hands the entries from `from` on to `each` in order, `count` at most.
    ///
    /// # Errors
    /// What the store or `each` says.
    fn scan(
        &self,
        keyspace: usize,
        from: &[u8],
        count: u64,
        each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<(), String>;
}

/// The records of a store: how many there are, and where.
#[derive(Debug)]
pub struct RecordTable {
    /// How many there are.
    pub records: AcknowledgedCounter,
    keyspaces: u64,
}

impl RecordTable {
    /// With so many records, spread over so many keyspaces, at least one.
    pub fn new(records: u64, keyspaces: u64) -> RecordTable {
        RecordTable { records: AcknowledgedCounter::new(records), keyspaces }
    }

    /// How many keyspaces there are.
    pub fn keyspaces(&self) -> u64 {
        self.keyspaces
    }

    /// The keyspace of `record`.
    #[inline]
    pub fn keyspace(&self, record: u64) -> usize {
        (mix(record) % self.keyspaces) as usize
    }
}

/// Times operations.
pub trait RecordTimer {
    /// Does `call`, which is all that the store does for an operation.
    fn time<R>(&mut self, operation: YcsbOperation, call: impl FnOnce() -> R) -> R;
}

/// What an operation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordAccess {
    /// Whether the record was there, if it was read.
    pub found: Option<bool>,
    /// Bytes of keys and values that were read.
    pub read: usize,
    /// The same, written.
    pub written: usize,
}

/// What one thread needs for operations.
pub struct RecordClient<'c, S> {
    store: &'c S,
    table: &'c RecordTable,
    form: RecordForm<'c>,
    values: Values<'c>,
    /// For fields that are changed.
    rng: Rng,
    key: Vec<u8>,
    read: Vec<u8>,
    written: Vec<u8>,
}

impl<'c, S: RecordStore> RecordClient<'c, S> {
    /// For thread `thread`; which fields are changed follows from `rng`.
    pub fn new(
        store: &'c S,
        table: &'c RecordTable,
        form: RecordForm<'c>,
        thread: usize,
        rng: Rng,
    ) -> RecordClient<'c, S> {
        let [key, read, written] = [(); 3].map(|()| Vec::new());
        RecordClient { store, table, form, values: form.values(thread), rng, key, read, written }
    }

    /// Does what is asked for. A record that is not there is not written, but by an insert or a whole update.
    ///
    /// # Errors
    /// What the store says; a record that is not what was written.
    pub fn run(
        &mut self,
        request: RecordRequest,
        timer: &mut impl RecordTimer,
    ) -> Result<RecordAccess, String> {
        match request.operation {
            Scan => self.scan(request.record, request.len, timer),
            operation => self.access(operation, request.record, timer),
        }
    }

    /// Does what concerns one record.
    fn access(
        &mut self,
        operation: YcsbOperation,
        record: u64,
        timer: &mut impl RecordTimer,
    ) -> Result<RecordAccess, String> {
        let RecordClient { store, table, form, values, rng, key, read, written } = self;
        let (form, keyspace) = (*form, table.keyspace(record));
        let changes = matches!(operation, Update | ReadModifyWrite);
        let (reads, writes) = (matches!(operation, Read | ReadModifyWrite), operation.puts());
        let one_field = changes && !form.ycsb.write_all_fields;
        form.write_key(record, key);
        let key = key.as_slice();
        if writes && !one_field {
            form.write_value(record, values, written);
        }
        let found = timer.time(operation, || -> Result<bool, String> {
            if reads {
                read.clear();
                if !store.get(keyspace, key, read)? {
                    return Ok(false);
                }
            }
            if one_field {
                written.clear();
                if !store.get(keyspace, key, written)? {
                    return Ok(false);
                }
                form.change_field(record, values, rng, written);
            }
            if writes {
                store.put(keyspace, key, written)?;
            }
            Ok(true)
        })?;
        let mut access = RecordAccess::default();
        if reads || one_field {
            access.found = Some(found);
        }
        if found && reads {
            form.check(record, read)?;
            access.read = key.len() + read.len();
        }
        if found && writes {
            form.check(record, written)?;
            access.written = key.len() + written.len();
        }
        Ok(access)
    }

    /// Reads `len` entries from `record` on, as many as its keyspace has.
    fn scan(
        &mut self,
        record: u64,
        len: u64,
        timer: &mut impl RecordTimer,
    ) -> Result<RecordAccess, String> {
        let RecordClient { store, table, form, key, .. } = self;
        let (form, keyspace) = (*form, table.keyspace(record));
        form.write_key(record, key);
        let first = key.as_slice();
        let (mut found, mut bytes, mut seen) = (false, 0, 0);
        timer.time(Scan, || {
            store.scan(keyspace, first, len, |key, value| {
                if seen == 0 {
                    found = key == first;
                }
                seen += 1;
                bytes += key.len() + value.len();
                form.check_entry(key, value)
            })
        })?;
        Ok(RecordAccess { found: Some(found), read: bytes, written: 0 })
    }
}
