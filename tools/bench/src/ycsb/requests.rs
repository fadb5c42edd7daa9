//! What a thread asks for.

use std::fmt;

use super::YcsbOperation::{self, Insert, Scan};
use super::{CoreWorkload, Ycsb, scan_len};
use crate::data::rng::Rng;
use crate::data::ycsb::{AcknowledgedCounter, KeyChooser};

/// An operation on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRequest {
    /// What is done.
    pub operation: YcsbOperation,
    /// The record, or the first of a scan.
    pub record: u64,
    /// Entries of a scan.
    pub len: u64,
}

impl RecordRequest {
    /// One that is no scan.
    pub fn of_one(operation: YcsbOperation, record: u64) -> RecordRequest {
        RecordRequest { operation, record, len: 1 }
    }
}

/// Draws what one thread asks for, without end.
pub struct RecordRequests {
    workload: CoreWorkload,
    chooser: KeyChooser,
    dice: Rng,
    lengths: Rng,
    scan_max: u64,
}

impl RecordRequests {
    /// Of a workload on `records` that are there, with `inserts` that are expected. Random numbers choose records, operations and
    /// lengths of scans.
    pub fn new(
        workload: CoreWorkload,
        ycsb: &Ycsb,
        records: u64,
        inserts: u64,
        [choice, dice, lengths]: [Rng; 3],
    ) -> RecordRequests {
        let distribution = ycsb.request_distribution.unwrap_or(workload.request_distribution);
        // Twice as many as are expected, as YCSB has it. What a long duration inserts beyond is not asked for.
        let most = records.saturating_add(2 * inserts);
        let chooser = KeyChooser::new(distribution, ycsb.zipfian_constant, most, choice);
        RecordRequests { workload, chooser, dice, lengths, scan_max: ycsb.scan_max }
    }

    /// The next request. A record that is to be inserted gets its number of `records`, and is to be acknowledged there.
    #[inline]
    pub fn next(&mut self, records: &AcknowledgedCounter) -> RecordRequest {
        match self.workload.next(&mut self.dice) {
            Insert => RecordRequest::of_one(Insert, records.next()),
            Scan => {
                let record = self.chooser.next(records.records());
                let len = scan_len(self.scan_max, &mut self.lengths);
                RecordRequest { operation: Scan, record, len }
            }
            operation => RecordRequest::of_one(operation, self.chooser.next(records.records())),
        }
    }
}

/// How records are chosen.
impl fmt::Display for RecordRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chooser.fmt(f)
    }
}
