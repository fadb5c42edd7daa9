//! `CHAIN`: which segment is the newest, so that its loss is noticed.
//!
//! The segments before the newest are named by those behind them. Nothing is behind the newest: had its file gone, or its name,
//! the log would end before it and look whole. So a file beside the segments names it. There are two places in that file,
//! written in turn: power may fail while one is written, and the other says what was before.
//!
//! - **I-WAL-5** `CHAIN` names a segment, durably, after that has its own name and before its first frame is written; and once the
//!   first frame of the segment before it is durable. So a segment with frames that is not there, or that nothing names, is damage;
//!   and one that is named and has none holds nothing that anyone was told of, and is the only one.

use std::path::PathBuf;

use base::Result;
use base::checksum::sum64;
use base::codec::Reader;
use base::planted::{self, Bug};

use crate::wal::installer::LogLocation;
#[cfg(any(test, feature = "fuzzing"))]
use crate::wal::segment::SegmentHeader;

pub(crate) const NAME: &str = "CHAIN";
/// The same as long as it is being made.
pub(crate) const STAGED: &str = "new-CHAIN";
/// What is wrong with a file that names nothing any more.
pub(crate) const NEITHER_SLOT: &str = "and the other slot fail their checks";
const MAGIC: u64 = u64::from_le_bytes(*b"strandch");
const SLOT_LEN: usize = 64;
const SUM_AT: usize = 56;
/// Where the slots are: no device writes both at once.
const SLOTS_AT: [u64; 2] = [0, 4096];

/// What names the newest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Identifier of the store.
    pub store: u64,
    pub number: u64,
    pub salt: u64,
    /// Bytes that its file has at least.
    pub len: u64,
}

/// A slot that passes its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChainSlot {
    sequence: u64,
    newest: Newest,
}

impl ChainSlot {
    fn encode(&self) -> [u8; SLOT_LEN] {
        let mut out = [0; SLOT_LEN];
        let Newest { store, number, salt, len } = self.newest;
        let fields = [MAGIC, self.sequence, store, number, salt, len];
        for (at, field) in out.chunks_exact_mut(8).zip(fields) {
            at.copy_from_slice(&field.to_le_bytes());
        }
        let sum = sum64(MAGIC, &out[..SUM_AT]);
        out[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<ChainSlot> {
        let mut fields = Reader::new(bytes);
        let (magic, sequence) = (fields.u64()?, fields.u64()?);
        let newest = Newest {
            store: fields.u64()?,
            number: fields.u64()?,
            salt: fields.u64()?,
            len: fields.u64()?,
        };
        let _zero = fields.u64()?;
        let holds = magic == MAGIC && fields.u64()? == sum64(MAGIC, &bytes[..SUM_AT]);
        // The highest numbers have none that follow.
        let ends = sequence.max(newest.number) == u64::MAX;
        (holds && !ends).then_some(ChainSlot { sequence, newest })
    }
}

/// The bytes of a new file: both slots say the same.
fn fresh(newest: Newest) -> Vec<u8> {
    let mut bytes = vec![0; SLOTS_AT[1] as usize + SLOT_LEN];
    for (sequence, at) in SLOTS_AT.into_iter().enumerate() {
        let slot = ChainSlot { sequence: sequence as u64, newest }.encode();
        bytes[at as usize..][..SLOT_LEN].copy_from_slice(&slot);
    }
    bytes
}

/// The file that names this segment, whatever that is.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mended(newest: &SegmentHeader) -> Vec<u8> {
    let SegmentHeader { store, number, salt, .. } = *newest;
    fresh(Newest { store, number, salt, len: 0 })
}

/// A file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainFile {
    newer: Option<ChainSlot>,
    /// One slot does not pass its check, or none does.
    pub is_damaged: bool,
}

impl ChainFile {
    /// Reads the file at a place; none if there is none.
    pub fn read(place: &LogLocation) -> Result<Option<ChainFile>> {
        let path = path(place);
        if !place.fs.exists(&path)? {
            return Ok(None);
        }
        let file = place.fs.open(&path)?;
        let mut slots = [None; 2];
        for (slot, at) in slots.iter_mut().zip(SLOTS_AT) {
            if file.len() >= at + SLOT_LEN as u64 {
                let mut bytes = [0; SLOT_LEN];
                file.read_at(at, &mut bytes)?;
                *slot = ChainSlot::decode(&bytes);
            }
        }
        let newer = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
        Ok(Some(ChainFile { newer, is_damaged: slots.contains(&None) }))
    }

    /// What it says, if anything of it can be read.
    pub fn newest(&self) -> Option<Newest> {
        self.newer.map(|slot| slot.newest)
    }
}

pub(crate) fn path(place: &LogLocation) -> PathBuf {
    place.dir.join(NAME)
}

/// Writes the file.
pub(crate) struct ChainWriter {
    place: LogLocation,
    /// What the file has; none if there is none.
    newer: Option<ChainSlot>,
}

impl ChainWriter {
    /// Goes on with what was found.
    pub fn new(place: LogLocation, found: Option<ChainFile>) -> ChainWriter {
        ChainWriter { place, newer: found.and_then(|found| found.newer) }
    }

    /// The number of the next call of [`name`](Self::name). It rises from one open to the next.
    pub fn next(&self) -> u64 {
        self.newer.map_or(1, |slot| slot.sequence + 1)
    }

    /// What it says.
    pub fn newest(&self) -> Option<Newest> {
        self.newer.map(|slot| slot.newest)
    }

    /// Makes durable what was found: a process that was killed may have written it and not synced it, and never is more than one
    /// slot on its way.
    pub fn keep(&self) -> Result<()> {
        match self.newer {
            Some(_) => self.place.fs.overwrite(&path(&self.place))?.sync(),
            None => Ok(()),
        }
    }

    /// Makes it durable that this segment is the newest.
    pub fn name(&mut self, newest: Newest) -> Result<()> {
        let slot = ChainSlot { sequence: self.next(), newest };
        let (path, fs) = (path(&self.place), &*self.place.fs);
        if self.newer.is_none() {
            let staged = self.place.dir.join(STAGED);
            ssd::durable_install(fs, &staged, &path, |file| file.append(&fresh(newest)))?;
        } else {
            let turn = if planted::is(Bug::WalChainOneSlot) { 0 } else { slot.sequence % 2 };
            let mut file = fs.overwrite(&path)?;
            file.write_at(SLOTS_AT[turn as usize], &slot.encode())?;
            if !planted::is(Bug::WalChainUnsynced) {
                file.sync()?;
            }
        }
        self.newer = Some(slot);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use ssd::{Disk, Fs, Memory};

    use super::*;
    use crate::wal::LogMedium;

    fn newest(number: u64) -> Newest {
        Newest { store: 7, number, salt: number + 100, len: 4096 }
    }

    fn place() -> (LogLocation, Memory) {
        let fs = Memory::new(Disk::new(512));
        fs.create_dir_all(Path::new("/wal")).expect("directory");
        (
            LogLocation { fs: Arc::new(fs.clone()), dir: "/wal".into(), medium: LogMedium::Device },
            fs,
        )
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let bytes = ChainSlot { sequence: 3, newest: newest(12) }.encode();
        assert_eq!(&bytes[..8], b"strandch");
        let words: Vec<u64> = bytes[8..]
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
            .collect();
        assert_eq!(words[..6], [3, 7, 12, 112, 4096, 0]);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes;
                bad[at] ^= 1 << bit;
                assert_eq!(ChainSlot::decode(&bad), None, "bit {bit} at {at}");
            }
        }
    }

    #[test]
    fn one_slot_that_is_torn_leaves_the_other() {
        let (place, _fs) = place();
        assert_eq!(ChainFile::read(&place).expect("read"), None);
        let mut chain = ChainWriter::new(place.clone(), None);
        for number in 1..9 {
            assert_eq!(chain.next(), number);
            chain.name(newest(number)).expect("written");
            let found = ChainFile::read(&place).expect("read").expect("there");
            assert_eq!((found.newest(), found.is_damaged), (Some(newest(number)), false));
            // Opened again it goes on.
            chain = ChainWriter::new(place.clone(), Some(found));
            if number == 1 {
                continue;
            }
            for (torn, at) in SLOTS_AT.into_iter().enumerate() {
                let mut file = place.fs.overwrite(&path(&place)).expect("open");
                let mut before = [0; 8];
                place
                    .fs
                    .open(&path(&place))
                    .expect("open")
                    .read_at(at + 8, &mut before)
                    .expect("read");
                file.write_at(at + 8, b"garbage!").expect("torn");
                let left = ChainFile::read(&place).expect("read").expect("there");
                let of_turn = torn as u64 == number % 2;
                let says = if of_turn { newest(number - 1) } else { newest(number) };
                assert_eq!((left.newest(), left.is_damaged), (Some(says), true));
                file.write_at(at + 8, &before).expect("mended");
            }
        }
    }
}
