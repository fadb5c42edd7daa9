//! [`Installer`]: gives segments their names.

use std::path::PathBuf;
use std::sync::Arc;

use base::checksum::mix;
use base::planted::{self, Bug};
use base::{ErrorKind, Result};
use pmem::{Durability, PmDevice};
use ssd::{Fs, Overwrite};

use crate::wal::chain::{ChainWriter, Newest};
use crate::wal::segment::{self, LogOwner, SegmentHeader};
use crate::wal::supply::{FileSource, FileSupply, Spare, SuppliedFile};
use crate::wal::way::{LogMode, Way, WayChoice};

/// What is filled, or mapped, may take this part of the free space at most.
const ROOM_SHARE: u64 = 4;

/// What the files of a log are on.
#[derive(Clone)]
pub(crate) enum LogMedium {
    /// A device: writes are durable once they are synced.
    Device,
    /// Memory that files are mapped from: a write is worth this when it returns.
    Memory(MemoryWorth),
}

/// What a write to memory is worth, and why it is not more.
#[derive(Clone)]
pub(crate) struct MemoryWorth {
    pub durability: Durability,
    pub why: String,
    /// The device that models it, if it is not the host's own.
    pub model: Option<PmDevice>,
}

/// What blocks that a file has already are worth to those who write over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// A sync has nothing to write about them.
    Kept,
    /// Nothing: each write goes to a new place.
    Moved,
    /// All: only what is there can be streamed to.
    Streamed,
}

/// Where a log is.
#[derive(Clone)]
pub(crate) struct LogLocation {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub medium: LogMedium,
}

impl LogLocation {
    pub fn blocks(&self) -> Blocks {
        match self.medium {
            LogMedium::Memory(_) => Blocks::Streamed,
            LogMedium::Device if self.fs.keeps_blocks(&self.dir) => Blocks::Kept,
            LogMedium::Device => Blocks::Moved,
        }
    }

    /// Bytes that the device has room for ahead of need, so that enough is left to those who need it now.
    pub fn spare_room(&self) -> u64 {
        self.fs.free_bytes(&self.dir).map_or(0, |free| free / ROOM_SHARE)
    }

    /// Makes the name of a new segment durable.
    fn sync_names(&self) -> Result<()> {
        if planted::is(Bug::WalSkipDirectorySync) {
            return Ok(());
        }
        self.fs.sync_dir(&self.dir)
    }
}

/// A segment with its name, and nothing in it.
pub(crate) struct Installed {
    pub header: SegmentHeader,
    pub file: Box<dyn Overwrite>,
    pub way: Way,
    /// Writes begin and end at a multiple of this.
    pub block: u64,
    /// Whether it is of use to know what writes and syncs take: where the file has its blocks, as most have.
    pub times: bool,
    pub follows: Follows,
}

/// What a segment comes behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// An open: how much will be written is not known.
    Open,
    /// A segment that is full: the log is in use.
    Full,
}

/// Makes segments. One that a background thread made ahead is kept for the writer.
pub(crate) struct Installer {
    place: LogLocation,
    owner: LogOwner,
    /// Salts are made of this and a number that none had before.
    entropy: u64,
    pub chain: ChainWriter,
    pub supply: FileSupply,
    pub ways: WayChoice,
    /// The segment that was made ahead, or why it could not be.
    ahead: Option<Result<Newest>>,
    /// Nothing is made any more: the files may be another's.
    is_ended: bool,
    /// Segments whose files had been those of others.
    pub recycled: u64,
    /// Segments that were there when they were needed.
    pub made_ahead: u64,
}

/// What there is for the segments that come, as it was when it was last to be seen.
#[derive(Clone, Copy)]
pub(crate) struct SupplyFigures {
    pub bytes: u64,
    pub zeroed_bytes: u64,
    pub recycled: u64,
    pub made_ahead: u64,
}

impl SupplyFigures {
    /// Whether these were not taken before `other`: both counts only rise.
    pub fn is_as_new_as(&self, other: &SupplyFigures) -> bool {
        self.recycled >= other.recycled && self.made_ahead >= other.made_ahead
    }

    pub fn of(installer: &Installer) -> SupplyFigures {
        let Installer { supply, recycled, made_ahead, .. } = installer;
        SupplyFigures {
            bytes: installer.bytes(),
            zeroed_bytes: supply.zeroed_bytes,
            recycled: *recycled,
            made_ahead: *made_ahead,
        }
    }
}

impl Installer {
    pub fn new(
        place: LogLocation,
        mode: LogMode,
        owner: LogOwner,
        entropy: u64,
        chain: ChainWriter,
    ) -> Installer {
        let supply = FileSupply::new(place.clone(), mode);
        let ways = WayChoice::new(mode, supply.blocks);
        Installer {
            place,
            owner,
            entropy,
            chain,
            supply,
            ways,
            ahead: None,
            is_ended: false,
            recycled: 0,
            made_ahead: 0,
        }
    }

    /// Makes segment `number`, meant for `len` bytes, the first of an open.
    pub fn install(&mut self, number: u64, len: u64) -> Result<Installed> {
        let newest = self.make(number, len)?;
        Ok(Installed {
            header: self.header(&newest, len),
            file: self.open(number)?,
            way: self.ways.first(),
            block: self.ways.first().block(),
            times: false,
            follows: Follows::Open,
        })
    }

    /// Makes it ahead, behind the newest that `CHAIN` names. A failure is told when the segment is needed; but not that there was no
    /// room for its file: there may be by then.
    pub fn make_ahead(&mut self, number: u64, len: u64) {
        let newest = self.chain.newest().map_or(0, |newest| newest.number);
        if self.is_ended || number != newest + 1 {
            return;
        }
        self.ahead = match self.stage(number, len) {
            Err(error) if error.kind() == ErrorKind::NoSpace => None,
            // What `CHAIN` says now may be what is durable of it: there is no second attempt.
            staged => Some(staged.and_then(|newest| self.chain.name(newest).map(|()| newest))),
        };
    }

    /// Whether the next segment is there, or it is known why it cannot be.
    pub fn has_next(&self) -> bool {
        self.ahead.is_some()
    }

    /// Bytes of all files that are there for the next segments.
    pub fn bytes(&self) -> u64 {
        let ahead = self.ahead.as_ref().and_then(|made| made.as_ref().ok());
        self.supply.bytes() + ahead.map_or(0, |newest| newest.len)
    }

    /// The files of segments that do not count, durably, are kept for those that come.
    pub fn retire(&mut self, gone: impl IntoIterator<Item = Spare>, wanted: u64) {
        for old in gone {
            if !self.is_ended {
                // One that stays does not count, and the next open removes it.
                let _may_stay = self.supply.retire(old, wanted);
            }
        }
    }

    /// Nothing is made or removed any more.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// The header of a segment that `CHAIN` names, and that is meant for `len` bytes.
    fn header(&self, newest: &Newest, len: u64) -> SegmentHeader {
        let Newest { store, number, salt, .. } = *newest;
        SegmentHeader { store, number, region_len: self.owner.region_len, salt, len }
    }

    /// Makes segment `number`, and has `CHAIN` name it.
    fn make(&mut self, number: u64, len: u64) -> Result<Newest> {
        let newest = self.stage(number, len)?;
        self.chain.name(newest)?;
        Ok(newest)
    }

    /// Makes a file segment `number`, with a name that lasts once this returns. `CHAIN` is to name it then.
    fn stage(&mut self, number: u64, len: u64) -> Result<Newest> {
        let LogOwner { id: store, region_len } = self.owner;
        let salt = self.salt();
        let header = SegmentHeader { store, number, region_len, salt, len };
        let SuppliedFile { mut file, source } = self.supply.take(number, len)?;
        file.write_at(0, &header.encode())?;
        sync_staged(&mut *file)?;
        let newest = Newest { store, number, salt, len: file.len() };
        if planted::is(Bug::WalChainFirst) {
            self.chain.name(newest)?;
        }
        let (staged, path) =
            (segment::staged(&self.place.dir, number), segment::path(&self.place.dir, number));
        self.place.fs.rename(&staged, &path)?;
        self.place.sync_names()?;
        self.recycled += u64::from(source == FileSource::Recycled);
        Ok(newest)
    }

    /// The file of a segment by its name, which errors tell.
    fn open(&self, number: u64) -> Result<Box<dyn Overwrite>> {
        self.place.fs.overwrite(&segment::path(&self.place.dir, number))
    }

    /// Segment `number` behind one that is full, written as the device likes it: the one that was made ahead, or else a new one.
    pub fn next(&mut self, number: u64, len: u64) -> Result<Installed> {
        let newest = match self.ahead.take() {
            Some(made) => {
                let newest = made?;
                self.made_ahead += 1;
                newest
            }
            None => self.make(number, len)?,
        };
        let header = self.header(&newest, len);
        let file = self.open(number)?;
        let times = self.ways.is_open() && file.len() >= len - len / 8;
        let (way, follows) = (self.ways.next(), Follows::Full);
        let mut installed = Installed { header, file, way, block: way.block(), times, follows };
        if installed.way == Way::Direct {
            match installed.file.bypass()? {
                Some(block) => installed.block = block.get(),
                None => {
                    self.ways.rule_out_direct();
                    installed.way = Way::Over;
                }
            }
        }
        Ok(installed)
    }

    fn salt(&self) -> u64 {
        if planted::is(Bug::WalSaltConstant) {
            return self.entropy;
        }
        mix(self.entropy, self.chain.next())
    }
}

/// Makes the bytes of a segment durable, before it gets its name.
fn sync_staged(file: &mut dyn Overwrite) -> Result<()> {
    if planted::is(Bug::WalSegmentUnsynced) {
        return Ok(());
    }
    file.sync()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ssd::{Disk, Memory};

    use super::*;
    use crate::options::{WalIo, WalSync};

    fn installer() -> (Installer, Memory) {
        let fs = Memory::new(Disk::new(512));
        fs.create_dir_all(Path::new("/wal")).expect("directory");
        let (fs, dir) = (Arc::new(fs.clone()), "/wal".into());
        let place = LogLocation { fs: fs.clone(), dir, medium: LogMedium::Device };
        let mode = LogMode { sync: WalSync::Always, io: WalIo::Cached };
        let owner = LogOwner { id: 7, region_len: 1 << 20 };
        let chain = ChainWriter::new(place.clone(), None);
        (Installer::new(place, mode, owner, 0, chain), (*fs).clone())
    }

    /// A thread that was told to make it may be late.
    #[test]
    fn a_segment_is_made_once_and_in_its_turn() {
        let (mut installer, fs) = installer();
        let is_there = |number| fs.exists(&segment::path(Path::new("/wal"), number)).expect("look");
        let first = installer.install(1, 4096).expect("made").header;
        for number in [1, 3, 0] {
            installer.make_ahead(number, 4096);
            assert!(installer.ahead.is_none(), "{number}");
        }
        installer.make_ahead(2, 4096);
        assert!(is_there(2));
        let next = installer.next(2, 4096).expect("made").header;
        assert!(next.number == 2 && next.salt != first.salt);
        installer.make_ahead(2, 4096);
        assert_eq!(installer.next(3, 4096).expect("made").header.number, 3);
        installer.end();
        installer.make_ahead(4, 4096);
        installer.retire([Spare { number: 1, len: 64 }], 4096);
        assert!(is_there(1) && !is_there(4));
        assert_eq!(installer.made_ahead, 1);
    }
}
