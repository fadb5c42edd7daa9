//! Reads a trace, block by block.

use std::io::{ErrorKind as IoKind, Read};

use base::codec::Reader;
use base::{Error, ErrorKind, Result};

use crate::block::{BlockHead, HEAD_LEN, HEADER_LEN, NoHeader, TraceHeader, VERSION};
use crate::record::{TraceRecord, decode};
use crate::sample::Sample;

/// Where the records of a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// Where they were ended by who traced.
    Whole,
    /// At a place where the file ends without that: it was not finished, or cut off.
    Cut {
        /// Offset of the first block that is not there as a whole.
        offset: u64,
    },
    /// At a block that fails its checks.
    Damaged {
        /// Offset of that block.
        offset: u64,
    },
}

/// Reads a trace.
///
/// Damage ends it: records before it are read, and [`TraceReader::end`] tells of it.
pub struct TraceReader<R> {
    input: R,
    header: TraceHeader,
    /// Of the next block.
    offset: u64,
    payload: Vec<u8>,
    /// In the block.
    at: usize,
    before_us: u64,
    reads: u64,
    end: Option<TraceEnd>,
}

impl<R: Read> TraceReader<R> {
    /// Begins to read `input`, which `name` names in errors.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no trace, `NotSupported` if it is one of a newer strandline, `Corruption` if its header is damaged,
    /// and those of `input`.
    pub fn begin(mut input: R, name: &str) -> Result<TraceReader<R>> {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        read_up_to(&mut input, HEADER_LEN, &mut bytes)
            .map_err(|error| Error::io("trace", format!("reading {name}"), error))?;
        let header = TraceHeader::decode(&bytes).map_err(|why| {
            let (kind, text) = match why {
                NoHeader::Foreign => (
                    ErrorKind::InvalidArgument,
                    format!("{name} is no trace; name a file of bench --trace or Db::start_trace"),
                ),
                NoHeader::Version(version) => (
                    ErrorKind::NotSupported,
                    format!("{name} has version {version}, this build reads {VERSION}; use a newer strandline"),
                ),
                NoHeader::Damaged => (
                    ErrorKind::Corruption,
                    format!("the first {HEADER_LEN} bytes of {name} are damaged; trace again"),
                ),
            };
            Error::new(kind, "trace", text)
        })?;
        Ok(TraceReader {
            input,
            header,
            offset: HEADER_LEN as u64,
            payload: Vec::new(),
            at: 0,
            before_us: 0,
            reads: 0,
            end: None,
        })
    }

    /// One of so many keys is in the trace.
    pub fn one_of(&self) -> u32 {
        self.header.one_of
    }

    /// The keys that are in the trace.
    pub fn sample(&self) -> Sample {
        Sample::one_of(self.header.one_of)
    }

    /// Gets that had found a value, of all keys, traced or not, at the end of the blocks that were read so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Where the records ended, once all are read.
    pub fn end(&self) -> Option<TraceEnd> {
        self.end
    }

    /// The next record; `None` behind the last one.
    ///
    /// # Errors
    /// Those of the input.
    #[expect(clippy::should_implement_trait, reason = "it lends its records")]
    pub fn next(&mut self) -> Result<Option<TraceRecord<'_>>> {
        if self.at == self.payload.len() && !self.read_block()? {
            return Ok(None);
        }
        let mut reader = Reader::new(&self.payload[self.at..]);
        // The block was checked: all of it is records.
        let record = decode(&mut reader, self.before_us);
        self.at += reader.position();
        self.before_us = record.map_or(0, |record| record.at_us);
        Ok(record)
    }

    /// Reads a block with records, if there is one more.
    fn read_block(&mut self) -> Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        (self.at, self.before_us) = (0, 0);
        self.payload.clear();
        match self.block() {
            Ok(None) => Ok(true),
            Ok(Some(end)) => {
                self.payload.clear();
                self.end = Some(end);
                Ok(false)
            }
            Err(error) => {
                self.payload.clear();
                let text = format!("reading a trace at {}; read it again", self.offset);
                Err(Error::io("trace", text, error))
            }
        }
    }

    /// Takes the next block to memory; or tells how the trace ends.
    fn block(&mut self) -> std::io::Result<Option<TraceEnd>> {
        let offset = self.offset;
        let mut head = Vec::with_capacity(HEAD_LEN);
        read_up_to(&mut self.input, HEAD_LEN, &mut head)?;
        if head.len() < HEAD_LEN {
            return Ok(Some(TraceEnd::Cut { offset }));
        }
        let Some(head) = BlockHead::decode(&head) else {
            return Ok(Some(TraceEnd::Damaged { offset }));
        };
        read_up_to(&mut self.input, head.bytes as usize, &mut self.payload)?;
        if self.payload.len() < head.bytes as usize {
            return Ok(Some(TraceEnd::Cut { offset }));
        }
        if head.sum != head.sum_of(offset, &self.payload) || !holds(&self.payload, head.records) {
            return Ok(Some(TraceEnd::Damaged { offset }));
        }
        self.offset += (HEAD_LEN + self.payload.len()) as u64;
        self.reads = head.reads;
        Ok((head.records == 0).then_some(TraceEnd::Whole))
    }
}

/// Whether `payload` is so many records and nothing else.
fn holds(payload: &[u8], records: u32) -> bool {
    let (mut reader, mut before_us) = (Reader::new(payload), 0);
    for _ in 0..records {
        match decode(&mut reader, before_us) {
            Some(record) => before_us = record.at_us,
            None => return false,
        }
    }
    reader.remaining() == 0
}

/// Appends `len` bytes to `out`, or as many as there are.
fn read_up_to(input: &mut impl Read, len: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    match input.take(len as u64).read_to_end(out) {
        Err(error) if error.kind() == IoKind::UnexpectedEof => Ok(()),
        read => read.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::samples;
    use crate::{Operation, TraceWriter, Written};

    /// A record that owns its key, in words.
    fn shown(record: &TraceRecord<'_>) -> String {
        format!("{record:?}")
    }

    fn trace(records: &[TraceRecord<'_>], max_bytes: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = TraceWriter::begin(&mut out, 1, max_bytes).expect("memory");
        writer.note_reads(77);
        for record in records {
            if writer.push(record).expect("memory") == Written::Full {
                break;
            }
        }
        writer.finish().expect("memory");
        drop(writer);
        out
    }

    fn read(bytes: &[u8]) -> Result<(Vec<String>, TraceEnd)> {
        let mut reader = TraceReader::begin(bytes, "memory")?;
        let mut records = Vec::new();
        while let Some(record) = reader.next()? {
            records.push(shown(&record));
        }
        Ok((records, reader.end().expect("all was read")))
    }

    #[test]
    fn traces_round_trip() {
        let records = samples();
        let bytes = trace(&records, u64::MAX);
        let all: Vec<String> = records.iter().map(shown).collect();
        assert_eq!(read(&bytes).expect("a trace"), (all, TraceEnd::Whole));
        let mut reader = TraceReader::begin(&bytes[..], "memory").expect("a trace");
        while reader.next().expect("memory").is_some() {}
        assert_eq!(reader.reads(), 77);
        assert_eq!(read(&trace(&[], u64::MAX)).expect("a trace"), (Vec::new(), TraceEnd::Whole));
    }

    /// A change of these bytes needs another version.
    #[test]
    fn the_format_is_what_it_was() {
        let key: &[u8] = b"key";
        let of = |at_us, operation| TraceRecord { at_us, keyspace: 1, key, operation };
        let records = [
            of(5, Operation::Put { bytes: 300 }),
            of(305, Operation::Get { found: Some(300) }),
            of(305, Operation::Get { found: None }),
            of(306, Operation::Delete),
            of(307, Operation::Merge { bytes: 8 }),
            of(308, Operation::DeleteRange { end: b"kez" }),
            of(309, Operation::Seek { steps: 2 }),
            of(310, Operation::SeekForPrev { steps: 0 }),
        ];
        let hex: String =
            trace(&records, u64::MAX).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
    }

    const GOLDEN: &str = "737472616e6474720100000001000000bcd49170bcc1bbf845000000080000004d00000000000000\
         16ec7cdf5f8035df050201036b6579ac02ac020101036b6579ad02000101036b657900010301036b\
         6579010401036b657908010501036b6579036b657a010601036b657902010701036b657900000000\
         00000000004d0000000000000086fa26755286405e";

    /// A trace of several blocks, the first long enough to be one.
    fn blocks() -> Vec<u8> {
        let key = vec![7; 40_000];
        let of = |at_us| TraceRecord {
            at_us,
            keyspace: 0,
            key: &key,
            operation: Operation::Put { bytes: at_us },
        };
        trace(&[of(1), of(2), of(3), of(4), of(5)], u64::MAX)
    }

    #[test]
    fn a_trace_that_is_cut_off_is_read_up_to_its_last_whole_block() {
        let bytes = blocks();
        let all = read(&bytes).expect("a trace").0;
        assert_eq!(all.len(), 5);
        let block = HEAD_LEN + 2 * 40_007;
        let ends = [1, 2].map(|blocks| HEADER_LEN + blocks * block);
        let near = ends.iter().flat_map(|end| end - 1..=end + HEAD_LEN);
        let mut counts = Vec::new();
        for len in near.chain([HEADER_LEN, bytes.len() - HEAD_LEN, bytes.len() - 1]) {
            let (records, end) = read(&bytes[..len]).expect("a header");
            assert!(all.starts_with(&records) && matches!(end, TraceEnd::Cut { .. }), "{len}");
            counts.push(records.len());
        }
        counts.dedup();
        assert_eq!(counts, [0, 2, 4, 0, 5]);
        for len in 0..HEADER_LEN {
            assert!(read(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn damage_ends_a_trace_and_makes_no_records() {
        let small = trace(&samples(), u64::MAX);
        let all = read(&small).expect("a trace").0;
        for at in 0..small.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = small.clone();
                bytes[at] ^= flip;
                match read(&bytes) {
                    Err(_) => assert!(at < HEADER_LEN, "{at}"),
                    Ok((records, end)) => {
                        assert!(all.starts_with(&records), "{at}");
                        assert_ne!(end, TraceEnd::Whole, "{at}");
                    }
                }
            }
        }
        // The block that is damaged is the second.
        let mut bytes = blocks();
        let second = HEADER_LEN + HEAD_LEN + 2 * 40_007 + HEAD_LEN;
        bytes[second + 100] ^= 1;
        let (records, end) = read(&bytes).expect("a header");
        assert_eq!(records.len(), 2);
        assert!(matches!(end, TraceEnd::Damaged { offset } if offset < second as u64));
    }

    #[test]
    fn a_trace_is_no_longer_than_it_may_be() {
        let records = samples();
        let whole = trace(&records, u64::MAX).len() as u64;
        for max in 0..whole {
            let bytes = trace(&records, max);
            let end = HEAD_LEN as u64;
            assert!(bytes.len() as u64 <= max.max(HEADER_LEN as u64) + end, "{max}");
            let (read, end) = read(&bytes).expect("a trace");
            assert!(read.len() <= records.len() && end == TraceEnd::Whole);
        }
    }

    #[test]
    fn a_full_device_is_told() {
        struct Full;
        impl std::io::Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(IoKind::StorageFull.into())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        assert!(TraceWriter::begin(Full, 1, u64::MAX).is_err());
    }

    #[test]
    fn other_files_are_refused_with_a_remedy() {
        let kind = |bytes: &[u8]| read(bytes).expect_err("no trace").kind();
        assert_eq!(kind(b"strandln and more than that"), ErrorKind::InvalidArgument);
        assert_eq!(kind(b""), ErrorKind::InvalidArgument);
        let mut bytes = blocks();
        bytes[12] = 9;
        assert_eq!(kind(&bytes), ErrorKind::Corruption);
    }
}
