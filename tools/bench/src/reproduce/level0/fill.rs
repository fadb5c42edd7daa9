//! A store that grows: keys each once in random order, and reads of those that are there.

use std::path::Path;
use std::time::Instant;

use strandline::{Db, Options, ReadOptions};

use super::super::indexes::SCAN;
use crate::data::keys::{Form, Keys};
use crate::data::order::Permutation;
use crate::data::rng::Rng;
use crate::data::values::{Marking, Source};
use crate::words::told;

/// Bytes of a value; the paper's.
pub(super) const VALUE: usize = 500;
const KEYS: Keys = Keys { form: Form::Number, size: 8 };
const RECORD: u64 = 8 + VALUE as u64;
/// Reads at each size, at most.
const GETS: u64 = 200_000;
const SCANS: u64 = 10_000;
const SLICES: u64 = 8;

/// A store, and how many of its keys are there.
pub(super) struct Growing {
    db: Db,
    order: Permutation,
    source: Source,
    rng: Rng,
    there: u64,
    most: u64,
    key: Vec<u8>,
}

impl Growing {
    /// A fresh store at `path` for so many bytes of keys and values.
    pub(super) fn open(
        path: &Path,
        options: Options,
        bytes: Option<u64>,
    ) -> Result<Growing, String> {
        let most = (bytes.unwrap_or(0) / RECORD).max(SLICES);
        Ok(Growing {
            db: Db::open(path, options).map_err(told)?,
            order: Permutation::new(most, 1),
            source: Source::new(VALUE),
            rng: Rng::new(2),
            there: 0,
            most,
            key: Vec::new(),
        })
    }

    /// Puts keys until there are so many bytes; how many a second.
    pub(super) fn put_until(&mut self, bytes: u64) -> Result<f64, String> {
        let until = (bytes / RECORD).clamp(self.there + 1, self.most.max(self.there + 1));
        let (before, began) = (self.there, Instant::now());
        let source = std::mem::replace(&mut self.source, Source::new(0));
        let mut values = source.values(0, Marking::Plain);
        while self.there < until {
            KEYS.write(self.order.at(self.there % self.most), &mut self.key);
            self.db.put(&self.key, values.next(self.there)).map_err(told)?;
            self.there += 1;
        }
        drop(values);
        self.source = source;
        Ok(rate(until - before, began))
    }

    /// Gets random keys that are there; how many a second.
    pub(super) fn gets(&mut self) -> Result<f64, String> {
        let (count, mut value, began) = (GETS.min(self.there), Vec::new(), Instant::now());
        for _ in 0..count {
            self.get(&mut value)?;
        }
        Ok(rate(count, began))
    }

    fn get(&mut self, value: &mut Vec<u8>) -> Result<(), String> {
        let number = self.order.at(self.rng.below(self.there));
        KEYS.write(number, &mut self.key);
        value.clear();
        let found = self.db.default_keyspace().get_into(&self.key, value).map_err(told)?;
        match found && value.len() == VALUE {
            true => Ok(()),
            false => Err(format!("key {number} is lost")),
        }
    }

    /// Scans from random keys; how many scans a second.
    pub(super) fn scans(&mut self) -> Result<f64, String> {
        let (count, began) = (SCANS.min(self.there), Instant::now());
        for _ in 0..count {
            KEYS.write(self.order.at(self.rng.below(self.there)), &mut self.key);
            scan(&self.db, &self.key, &mut |_| Ok(()))?;
        }
        Ok(rate(count, began))
    }

    /// Puts and gets in turn until all keys are there, from those that are on; operations a second in equal slices.
    pub(super) fn mixed(&mut self) -> Result<Vec<f64>, String> {
        let (source, mut value) = (std::mem::replace(&mut self.source, Source::new(0)), Vec::new());
        let (mut values, mut rates) = (source.values(0, Marking::Plain), Vec::new());
        let (first, more) = (self.there, self.most - self.there);
        for slice in 1..=SLICES {
            let (before, began) = (self.there, Instant::now());
            while self.there < first + more * slice / SLICES {
                KEYS.write(self.order.at(self.there), &mut self.key);
                self.db.put(&self.key, values.next(self.there)).map_err(told)?;
                self.there += 1;
                self.get(&mut value)?;
            }
            rates.push(rate(2 * (self.there - before), began));
        }
        Ok(rates)
    }
}

/// Shows `each` the values of the first [`SCAN`] keys from `key` on.
pub(super) fn scan(
    db: &Db,
    key: &[u8],
    each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).map_err(told)?;
    iter.seek(key).map_err(told)?;
    for _ in 0..SCAN {
        let Some(value) = iter.value().map_err(told)? else { break };
        each(value)?;
        iter.next().map_err(told)?;
    }
    Ok(())
}

fn rate(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64().max(1e-9)
}
