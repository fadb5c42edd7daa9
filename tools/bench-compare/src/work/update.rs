//! Transactions of one key: each reads it and puts the next generation of its value, so that a value tells how many commits its key
//! had.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Bench, Clocks, Conflicts, Length, Measured};
use crate::crew::{self, LAP, Span};
use crate::data::Data;
use crate::engines::{Change, Result};

/// What random numbers of updates are apart from others by.
const UPDATES: u64 = 0x0bda;

/// What transactions lost, of all threads. It is written only where there was a conflict.
#[derive(Debug, Default)]
struct Lost {
    attempts: AtomicU64,
    transactions: AtomicU64,
    most: AtomicU64,
}

impl Lost {
    fn note(&self, attempts: u64) {
        if attempts > 0 {
            self.attempts.fetch_add(attempts, Relaxed);
            self.transactions.fetch_add(1, Relaxed);
            self.most.fetch_max(attempts, Relaxed);
        }
    }

    fn conflicts(self) -> Conflicts {
        Conflicts {
            lost: self.attempts.into_inner(),
            retried: self.transactions.into_inner(),
            most: self.most.into_inner(),
        }
    }
}

/// Makes the next value of a key.
struct Increment<'d> {
    data: &'d Data,
    number: u64,
    value: Vec<u8>,
}

impl Change for Increment<'_> {
    fn of(&mut self, old: Option<&[u8]>) -> Result<&[u8]> {
        let generation = old.and_then(|old| self.data.generation(self.number, old));
        let generation = generation.ok_or_else(|| {
            format!("update of {}: its value is none of its own: {old:?}", self.number)
        })?;
        self.data.value(self.number, generation + 1, &mut self.value);
        Ok(&self.value)
    }
}

/// The rate counts commits.
pub(super) fn update(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let lost = Lost::default();
    let span = Span { time: length.time, ops: length.ops, lap: LAP };
    let (rate, _) = crew::run(threads, false, span, &|thread| {
        let mut draws = bench.draws(bench.model.len(), UPDATES, thread as u64);
        let (mut key, mut watch, lost) = (Vec::new(), clocks.main.stopwatch(), &lost);
        let mut change = Increment { data: bench.data, number: 0, value: Vec::new() };
        Box::new(move || {
            change.number = draws.draw();
            bench.data.key(change.number, &mut key);
            let attempts = watch.time(|| bench.engine.update(&key, &mut change))?;
            bench.model.advance(change.number);
            lost.note(attempts);
            Ok(())
        })
    })?;
    Ok(Measured {
        rate,
        commits: rate.ops,
        conflicts: Some(lost.conflicts()),
        user_bytes: rate.ops * bench.data.entry(),
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Filling, Spread};

    #[test]
    fn a_change_makes_the_next_value_of_its_own_key_only() {
        let data = Data::new(Spread::Dense, Filling::Half, 100);
        let mut change = Increment { data: &data, number: 7, value: Vec::new() };
        let mut value = Vec::new();
        data.value(7, 3, &mut value);
        assert_eq!(data.generation(7, change.of(Some(&value)).unwrap()), Some(4));
        data.value(8, 3, &mut value);
        assert!(change.of(Some(&value)).is_err() && change.of(None).is_err());
    }

    #[test]
    fn what_was_lost_is_told() {
        let lost = Lost::default();
        [0, 2, 0, 5].iter().for_each(|attempts| lost.note(*attempts));
        assert_eq!(lost.conflicts(), Conflicts { lost: 7, retried: 2, most: 5 });
    }
}
