//! What the terminals count, and how it is told.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::terminal::Completion;
use super::transactions::{Kind, Verdict};
use crate::report::outcome::Outcome;
use crate::words::{round, thousands};

/// Longest time that is told apart: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// The figures of one kind.
#[derive(Clone, Debug)]
pub struct KindFigures {
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were to be rolled back.
    pub rolled_back: u64,
    /// Attempts that were lost against another transaction.
    pub conflicts: u64,
    /// Transactions with conflicts.
    pub retried: u64,
    /// The most conflicts of a transaction.
    pub most_conflicts: u64,
    /// Nanoseconds from the first attempt's begin to the last one's end.
    pub times: Histogram<u64>,
}

/// The figures of all kinds.
#[derive(Clone, Debug)]
pub struct TpccFigures {
    kinds: [KindFigures; Kind::ALL.len()],
    /// Districts without an order to deliver.
    skipped: u64,
}

impl KindFigures {
    fn new() -> Result<KindFigures, String> {
        let times =
            Histogram::new_with_bounds(1, LONGEST_NS, 3).map_err(|error| error.to_string())?;
        Ok(KindFigures {
            committed: 0,
            rolled_back: 0,
            conflicts: 0,
            retried: 0,
            most_conflicts: 0,
            times,
        })
    }

    fn add(&mut self, other: &KindFigures) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.retried += other.retried;
        self.most_conflicts = self.most_conflicts.max(other.most_conflicts);
        // Both have the same bounds, so that the other fits.
        let _fits = self.times.add(&other.times);
    }

    /// Microseconds: p50, p95, p99 and the longest.
    fn micros(&self) -> [f64; 4] {
        let at = |percent| self.times.value_at_percentile(percent);
        [at(50.0), at(95.0), at(99.0), self.times.max()].map(|ns| round(ns as f64 / 1e3, 1))
    }

    fn json(&self) -> Value {
        let [p50, p95, p99, max] = self.micros();
        json!({
            "committed": self.committed,
            "rolled_back": self.rolled_back,
            "conflicts": self.conflicts,
            "retried": self.retried,
            "most_conflicts": self.most_conflicts,
            "p50_us": p50,
            "p95_us": p95,
            "p99_us": p99,
            "max_us": max,
        })
    }
}

impl TpccFigures {
    /// None yet.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new() -> Result<TpccFigures, String> {
        let kinds: Vec<KindFigures> =
            Kind::ALL.iter().map(|_| KindFigures::new()).collect::<Result<_, _>>()?;
        let kinds = kinds.try_into().map_err(|_| "a kind is missing")?;
        Ok(TpccFigures { kinds, skipped: 0 })
    }

    /// The figures of a kind.
    pub fn of(&self, kind: Kind) -> &KindFigures {
        &self.kinds[kind as usize]
    }

    /// Counts a transaction.
    pub fn count(&mut self, kind: Kind, completion: Completion, took: Duration) {
        let of = &mut self.kinds[kind as usize];
        match completion.verdict {
            Verdict::Commit => of.committed += 1,
            Verdict::CommitWithout(districts) => {
                of.committed += 1;
                self.skipped += districts;
            }
            Verdict::RollBack => of.rolled_back += 1,
        }
        of.conflicts += completion.conflicts;
        of.retried += u64::from(completion.conflicts > 0);
        of.most_conflicts = of.most_conflicts.max(completion.conflicts);
        of.times.saturating_record(took.as_nanos() as u64);
    }

    /// Adds those of another terminal.
    pub fn add(&mut self, other: &TpccFigures) {
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(of, other)| of.add(other));
        self.skipped += other.skipped;
    }

    /// Adds them to the outcome of the run.
    pub(super) fn tell(&self, outcome: &mut Outcome) {
        let new_orders = self.of(Kind::NewOrder).committed;
        let tpmc = round(new_orders as f64 * 60.0 / outcome.seconds.max(1e-9), 1);
        let conflicts: u64 = self.kinds.iter().map(|of| of.conflicts).sum();
        outcome.message = format!("( tpmC:{tpmc}, not audited; conflicts:{conflicts} )");
        let kinds = Kind::ALL.iter().zip(&self.kinds);
        let kinds: Map<String, Value> =
            kinds.map(|(kind, of)| (kind.name().into(), of.json())).collect();
        outcome.note("tpmc", tpmc);
        outcome.note("audited", false);
        outcome.note("conflicts", conflicts);
        outcome.note("deliveries_skipped", self.skipped);
        outcome.note("transactions", kinds);
    }

    /// A row for each kind.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<13}{:>12}{:>10}{:>11}{:>9}{:>10}{:>11}{:>11}{:>11}{:>11}\n",
            "",
            "committed",
            "rolled",
            "conflicts",
            "retried",
            "at most",
            "p50 us",
            "p95 us",
            "p99 us",
            "max us"
        );
        for (kind, of) in Kind::ALL.iter().zip(&self.kinds) {
            let [p50, p95, p99, max] = of.micros();
            let _never_fails = writeln!(
                text,
                "{:<13}{:>12}{:>10}{:>11}{:>9}{:>10}{p50:>11.1}{p95:>11.1}{p99:>11.1}{max:>11.1}",
                kind.name(),
                thousands(of.committed),
                of.rolled_back,
                of.conflicts,
                of.retried,
                of.most_conflicts,
            );
        }
        if self.skipped > 0 {
            let _never_fails = writeln!(text, "{} districts had nothing to deliver", self.skipped);
        }
        text
    }
}
