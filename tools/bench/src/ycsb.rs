//! YCSB's core workloads: which operations each has, and what flags say of them all.

use crate::data::rng::Rng;
use crate::data::ycsb::{RequestDistribution, fnv_hash64};

/// What the names of its benchmarks begin with.
pub(crate) const PREFIX: &str = "ycsb-";

/// The parameters of all its workloads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ycsb {
    /// In place of that of each workload.
    pub request_distribution: Option<RequestDistribution>,
    pub zipfian_constant: f64,
    pub fields: usize,
    pub field_bytes: usize,
    /// Whether an update writes all fields, or one.
    pub write_all_fields: bool,
    /// The longest scan.
    pub scan_max: u64,
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
pub(crate) enum InsertOrder {
    /// Anywhere.
    Hashed,
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
pub(crate) enum YcsbOperation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

use YcsbOperation::{Insert, Read, ReadModifyWrite, Scan, Update};

impl YcsbOperation {
    /// In the order in which they are told.
    pub(crate) const ALL: [YcsbOperation; 5] = [Read, Update, Insert, Scan, ReadModifyWrite];

    /// What it is called in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Read => "read",
            Update => "update",
            Insert => "insert",
            Scan => "scan",
            ReadModifyWrite => "read-modify-write",
        }
    }
}

/// One of the workloads.
pub(crate) struct CoreWorkload {
    pub name: &'static str,
    /// Percent of each operation.
    pub mix: [(YcsbOperation, u64); 2],
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

pub(crate) const A: CoreWorkload = workload("ycsb-a", [(Read, 50), (Update, 50)], ZIPFIAN);
pub(crate) const B: CoreWorkload = workload("ycsb-b", [(Read, 95), (Update, 5)], ZIPFIAN);
pub(crate) const C: CoreWorkload = workload("ycsb-c", [(Read, 100), (Update, 0)], ZIPFIAN);
pub(crate) const D: CoreWorkload =
    workload("ycsb-d", [(Read, 95), (Insert, 5)], RequestDistribution::Latest);
pub(crate) const E: CoreWorkload = workload("ycsb-e", [(Scan, 95), (Insert, 5)], ZIPFIAN);
pub(crate) const F: CoreWorkload = workload("ycsb-f", [(Read, 50), (ReadModifyWrite, 50)], ZIPFIAN);

impl CoreWorkload {
    /// The next operation.
    #[inline]
    pub(crate) fn next(&self, rng: &mut Rng) -> YcsbOperation {
        let [(first, percent), (second, _)] = self.mix;
        if rng.chance(percent, 100) { first } else { second }
    }

    /// Inserts that so many operations are expected to have.
    pub(crate) fn inserts(&self, operations: u64) -> u64 {
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
