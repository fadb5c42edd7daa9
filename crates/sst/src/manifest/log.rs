//! The log that a `MANIFEST` is: records in blocks, each fragment with a checksum.

use base::{Error, Result};

use crate::checksum::Checksum;

const BLOCK: usize = 32 << 10;
/// Bytes before those of a fragment.
const HEADER: usize = 7;
const READ: &str = "read manifest";

/// Which part of a record a fragment is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

impl Part {
    fn from_u8(kind: u8) -> Option<Part> {
        [Part::Whole, Part::First, Part::Middle, Part::Last]
            .into_iter()
            .find(|part| *part as u8 == kind)
    }
}

/// The bytes of a log with these records.
pub fn write_log<'r>(records: impl IntoIterator<Item = &'r [u8]>) -> Vec<u8> {
    let mut log = Vec::new();
    for record in records {
        let (mut rest, mut first) = (record, true);
        loop {
            let left = BLOCK - log.len() % BLOCK;
            if left < HEADER {
                log.resize(log.len() + left, 0);
                continue;
            }
            let (piece, behind) = rest.split_at(rest.len().min(left - HEADER));
            let part = match (first, behind.is_empty()) {
                (true, true) => Part::Whole,
                (true, false) => Part::First,
                (false, false) => Part::Middle,
                (false, true) => Part::Last,
            };
            let sum = Checksum::Crc32c.of(&[&[part as u8], piece].concat());
            log.extend_from_slice(&sum.to_le_bytes());
            log.extend_from_slice(&(piece.len() as u16).to_le_bytes());
            log.push(part as u8);
            log.extend_from_slice(piece);
            (rest, first) = (behind, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    log
}

/// The records of a log, all of them; `name` is what messages call it.
///
/// # Errors
/// `Corruption` at the first byte that is not as a writer that came to its end left it.
pub fn read_log(log: &[u8], name: &str) -> Result<Vec<Vec<u8>>> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < log.len() {
        let left = BLOCK - at % BLOCK;
        let ends = log.len().min(at + left);
        if left < HEADER {
            if log[at..ends].iter().any(|byte| *byte != 0) {
                return Err(damaged(name, at, "the end of a block is not empty"));
            }
            at = ends;
            continue;
        }
        let Some((header, rest)) = log[at..ends].split_first_chunk::<HEADER>() else {
            return Err(damaged(name, at, "it is cut off"));
        };
        let [s0, s1, s2, s3, l0, l1, kind] = *header;
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        // Space that a file system gave ahead of time, and nothing came to.
        if kind == 0 && len == 0 && log[at..].iter().all(|byte| *byte == 0) {
            break;
        }
        let Some(piece) = rest.get(..len) else {
            return Err(damaged(name, at, "it is cut off, or a length there is wrong"));
        };
        let sum = u32::from_le_bytes([s0, s1, s2, s3]);
        if Checksum::Crc32c.of(&[&[kind], piece].concat()) != sum {
            return Err(damaged(name, at, "a checksum does not hold"));
        }
        let part = Part::from_u8(kind);
        match (part, open.take()) {
            (Some(Part::Whole), None) => records.push(piece.to_vec()),
            (Some(Part::First), None) => open = Some(piece.to_vec()),
            (Some(part @ (Part::Middle | Part::Last)), Some(mut record)) => {
                record.extend_from_slice(piece);
                match part {
                    Part::Last => records.push(record),
                    _ => open = Some(record),
                }
            }
            _ => return Err(damaged(name, at, "parts of records do not follow each other")),
        }
        at += HEADER + len;
    }
    match open {
        None => Ok(records),
        Some(_) => Err(damaged(name, log.len(), "its last record is cut off")),
    }
}

#[cold]
fn damaged(name: &str, at: usize, what: &str) -> Error {
    let text = format!(
        "{name} is damaged at offset {at}: {what}; open the database with RocksDB once, or restore the file"
    );
    Error::corruption(READ, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lens: &[usize]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let record = |(no, len): (usize, &usize)| vec![no as u8 + 1; *len];
        let records: Vec<Vec<u8>> = lens.iter().enumerate().map(record).collect();
        let log = write_log(records.iter().map(|record| &record[..]));
        (records, log)
    }

    #[test]
    fn records_come_back_however_they_meet_the_ends_of_blocks() {
        // Fewer than seven bytes, exactly seven, and none are left of the first block.
        for first in (BLOCK - 3 * HEADER - 3)..=BLOCK {
            let (records, log) = written(&[first, 0, 5, 3 * BLOCK, 1]);
            assert_eq!(read_log(&log, "it").expect("whole"), records, "{first}");
        }
        assert_eq!(read_log(&[], "it").expect("nothing"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn space_that_was_given_ahead_of_time_is_no_damage() {
        let (records, mut log) = written(&[10, 20]);
        log.resize(log.len() + 100_000, 0);
        assert_eq!(read_log(&log, "it").expect("whole"), records);
        let last = log.len() - 1;
        log[last] = 1;
        assert!(read_log(&log, "it").is_err());
    }

    #[test]
    fn every_cut_within_a_record_and_every_change_is_damage() {
        let (_, log) = written(&[BLOCK - 2 * HEADER - 20, 3, 100, 50]);
        let mut whole = vec![0];
        for at in (0..log.len()).step_by(97).chain(log.len() - 400..log.len()) {
            match read_log(&log[..at], "it") {
                Ok(records) if !whole.contains(&records.len()) => whole.push(records.len()),
                Ok(_) => {}
                Err(error) => assert!(error.context().starts_with("it is damaged"), "{error}"),
            }
            for bit in 0..8 {
                let mut bad = log.clone();
                bad[at] ^= 1 << bit;
                assert!(read_log(&bad, "it").is_err(), "bit {bit} of {at}");
            }
        }
        assert_eq!(whole, [0, 1, 2, 3], "cut between records nothing tells that more follow");
    }

    /// What RocksDB 9.8.4 writes for an edit that says the log number, 4, only.
    #[test]
    fn the_bytes_are_those_of_rocksdb() {
        let log = write_log([&b"\x02\x04"[..]]);
        assert_eq!(log[4..], *b"\x02\x00\x01\x02\x04");
        assert_eq!(
            crate::checksum::masked(crc32c::crc32c(b"\x01\x02\x04")).to_le_bytes(),
            log[..4]
        );
    }
}
