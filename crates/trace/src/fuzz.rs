//! What fuzzing runs, for `fuzz/` and for the tests below. No input may panic, overrun or go on for ever.
//!
//! The input is looked at as it is, and once more as one block whose checksum holds, since hardly any input passes that.

use crate::block::{BlockHead, TraceHeader};
use crate::{TraceReader, TraceWriter};

/// A trace; then the same bytes as the records of one block, their number in the first byte.
pub fn trace(data: &[u8]) {
    read(data);
    let Some((count, payload)) = data.split_first() else { return };
    let header = TraceHeader { one_of: 1 }.encode();
    let head = BlockHead::of(header.len() as u64, (*count).into(), 0, payload).encode();
    read(&[&header[..], &head, payload].concat());
}

/// Reads all that is there. What was read is written as the same records again.
fn read(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::begin(bytes, "input") else { return };
    let mut again = Vec::new();
    let one_of = reader.one_of();
    let mut writer = TraceWriter::begin(&mut again, one_of, u64::MAX).expect("memory");
    while let Some(record) = reader.next().expect("memory") {
        writer.push(&record).expect("memory");
    }
    assert!(reader.end().is_some(), "a trace ends");
    writer.finish().expect("memory");
    let written = writer.records();
    drop(writer);
    let mut reader = TraceReader::begin(&again[..], "again").expect("a trace");
    let mut count = 0;
    while reader.next().expect("memory").is_some() {
        count += 1;
    }
    assert_eq!(count, written);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::block::HEAD_LEN;
    use crate::record::tests::samples;

    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace")
    }

    #[test]
    fn corpus_and_mutants() {
        testkit::corpus::replay(&testkit::corpus::inputs(&folder()), 1000, trace);
    }

    /// Writes first inputs with the crate's own encoders: a trace, and the records of one.
    #[test]
    #[ignore = "writes to fuzz/corpus"]
    fn make_corpus() {
        std::fs::create_dir_all(folder()).expect("folder");
        let mut whole = Vec::new();
        let mut writer = TraceWriter::begin(&mut whole, 1, u64::MAX).expect("memory");
        for record in samples() {
            writer.push(&record).expect("memory");
        }
        writer.finish().expect("memory");
        drop(writer);
        let front = TraceHeader { one_of: 1 }.encode().len() + HEAD_LEN;
        let mut records = vec![samples().len() as u8];
        records.extend(&whole[front..whole.len() - HEAD_LEN]);
        std::fs::write(folder().join("whole"), whole).expect("write");
        std::fs::write(folder().join("records"), records).expect("write");
    }
}
