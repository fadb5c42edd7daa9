//! YCSB's core workloads (Cooper et al., SoCC 2010): which operations each has, what is asked for and what records look like, on
//! this engine and on others.

mod check;
mod client;
mod form;
mod requests;

pub use check::check_all;
pub use client::{RecordAccess, RecordClient, RecordStore, RecordTable, RecordTimer};
pub use form::{Look, RecordForm};
pub use requests::{RecordRequest, RecordRequests};

use crate::data::rng::Rng;
use crate::data::ycsb::fnv_hash64;
pub use crate::data::ycsb::{AcknowledgedCounter, RequestDistribution};

/// What the names of its benchmarks begin with.
pub(crate) const PREFIX: &str = "ycsb-";

/// The parameters of all its workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Ycsb {
    /// In place of that of each workload.
    pub request_distribution: Option<RequestDistribution>,
    /// The exponent of Zipf's law.
    pub zipfian_constant: f64,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes of a field, where nothing says how long a record is.
    pub field_bytes: usize,
    /// Whether an update writes all fields, or one.
    pub write_all_fields: bool,
    /// The longest scan.
    pub scan_max: u64,
    /// How keys follow each other.
    pub order: InsertOrder,
    /// Keyspaces that records are spread over.
    pub keyspaces: u64,
}

/// What YCSB has, but that an update writes one field there.
impl Default for Ycsb {
    fn default() -> Self {
        Ycsb {
            request_distribution: None,
            zipfian_constant: 0.99,
            fields: 10,
            field_bytes: 100,
            write_all_fields: true,
            scan_max: 100,
            order: InsertOrder::Hashed,
            keyspaces: 1,
        }
    }
}

/// How the keys of records follow each other that are inserted one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOrder {
    /// Anywhere.
    Hashed,
    /// As they are inserted.
    Ordered,
}

impl InsertOrder {
    /// The number in the key of `record`.
    #[inline]
    pub(crate) fn key_number(self, record: u64) -> u64 {
        match self {
            InsertOrder::Hashed => fnv_hash64(record),
            InsertOrder::Ordered => record,
        }
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbOperation {
    /// Of a record.
    Read,
    /// Of a record that is there.
    Update,
    /// Of a record that is not there yet.
    Insert,
    /// Of a record and those behind it.
    Scan,
    /// A read, then an update.
    ReadModifyWrite,
}

use YcsbOperation::{Insert, Read, ReadModifyWrite, Scan, Update};

impl YcsbOperation {
    /// In the order in which they are told.
    pub const ALL: [YcsbOperation; 5] = [Read, Update, Insert, Scan, ReadModifyWrite];

    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Read => "read",
            Update => "update",
            Insert => "insert",
            Scan => "scan",
            ReadModifyWrite => "read-modify-write",
        }
    }

    /// Whether it puts anything.
    pub fn puts(self) -> bool {
        matches!(self, Update | Insert | ReadModifyWrite)
    }
}

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreWorkload {
    /// As a benchmark.
    pub name: &'static str,
    /// Percent of each operation.
    pub mix: [(YcsbOperation, u64); 2],
    /// Which records it asks for.
    pub request_distribution: RequestDistribution,
}

const fn workload(
    name: &'static str,
    mix: [(YcsbOperation, u64); 2],
    request_distribution: RequestDistribution,
) -> CoreWorkload {
    CoreWorkload { name, mix, request_distribution }
}

const ZIPFIAN: RequestDistribution = RequestDistribution::Zipfian;

/// A: half reads, half updates.
pub const A: CoreWorkload = workload("ycsb-a", [(Read, 50), (Update, 50)], ZIPFIAN);
/// B: few updates.
pub const B: CoreWorkload = workload("ycsb-b", [(Read, 95), (Update, 5)], ZIPFIAN);
/// C: reads alone.
pub const C: CoreWorkload = workload("ycsb-c", [(Read, 100), (Update, 0)], ZIPFIAN);
/// D: reads of the newest, few inserts.
pub const D: CoreWorkload =
    workload("ycsb-d", [(Read, 95), (Insert, 5)], RequestDistribution::Latest);
/// E: scans, few inserts.
pub const E: CoreWorkload = workload("ycsb-e", [(Scan, 95), (Insert, 5)], ZIPFIAN);
/// F: half reads, half read-modify-writes.
pub const F: CoreWorkload = workload("ycsb-f", [(Read, 50), (ReadModifyWrite, 50)], ZIPFIAN);

impl CoreWorkload {
    /// Whether it puts anything.
    pub fn puts(&self) -> bool {
        self.mix.iter().any(|(operation, percent)| *percent > 0 && operation.puts())
    }

    /// The next operation.
    #[inline]
    pub(crate) fn next(&self, rng: &mut Rng) -> YcsbOperation {
        let [(first, percent), (second, _)] = self.mix;
        if rng.chance(percent, 100) { first } else { second }
    }

    /// Inserts that so many operations are expected to have.
    pub fn inserts(&self, operations: u64) -> u64 {
        let [_, (second, percent)] = self.mix;
        if second == Insert { operations.saturating_mul(percent) / 100 } else { 0 }
    }
}

/// Entries of a scan: each number to `longest`, which is not 0, as often as any other.
#[inline]
pub(crate) fn scan_len(longest: u64, rng: &mut Rng) -> u64 {
    1 + rng.below(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_those_of_ycsb() {
        let shares = |workload: &CoreWorkload| {
            let (mut rng, mut counts) = (Rng::new(7), [0_u32; 5]);
            (0..100_000).for_each(|_| counts[workload.next(&mut rng) as usize] += 1);
            counts.map(|count| (f64::from(count) / 1000.0).round() as u32)
        };
        // Reads, updates, inserts, scans, read-modify-writes.
        for (workload, percent) in [
            (A, [50, 50, 0, 0, 0]),
            (B, [95, 5, 0, 0, 0]),
            (C, [100, 0, 0, 0, 0]),
            (D, [95, 0, 5, 0, 0]),
            (E, [0, 0, 5, 95, 0]),
            (F, [50, 0, 0, 0, 50]),
        ] {
            let found = shares(&workload);
            assert!(found.iter().zip(percent).all(|(found, percent)| found.abs_diff(percent) <= 1));
            assert_eq!(workload.inserts(200) > 0, percent[2] > 0, "{}", workload.name);
            assert_eq!(workload.puts(), workload != C, "{}", workload.name);
        }
    }

    #[test]
    fn scans_are_of_all_lengths_alike() {
        let (mut rng, mut counts) = (Rng::new(7), vec![0; 102]);
        (0..100_000).for_each(|_| counts[scan_len(100, &mut rng) as usize] += 1);
        assert_eq!((counts[0], counts[101]), (0, 0));
        assert!(counts[1..=100].iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn keys_are_hashed_unless_they_are_to_be_ordered() {
        assert_eq!([0, 1].map(|record| InsertOrder::Ordered.key_number(record)), [0, 1]);
        assert_eq!(InsertOrder::Hashed.key_number(0), 6_284_781_860_667_377_211);
    }
}
