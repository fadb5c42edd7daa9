//! [`Installer`]: gives segments their names.

use std::path::PathBuf;
use std::sync::Arc;

use base::Result;
use base::checksum::mix;
use base::planted::{self, Bug};
use ssd::{Fs, Overwrite};

use crate::wal::chain::{ChainWriter, Newest};
use crate::wal::segment::{self, LogOwner, SegmentHeader};
use crate::wal::supply::{FileSource, FileSupply, SuppliedFile};
use crate::wal::way::{LogMode, Way, WayChoice};

/// Where a log is.
#[derive(Clone)]
pub(crate) struct LogLocation {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
}

impl LogLocation {
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
}

/// Makes segments.
pub(crate) struct Installer {
    place: LogLocation,
    owner: LogOwner,
    /// Salts are made of this and a number that none had before.
    entropy: u64,
    pub chain: ChainWriter,
    pub supply: FileSupply,
    pub ways: WayChoice,
    /// Segments whose files had been those of others.
    pub recycled: u64,
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
        let ways = WayChoice::new(mode, supply.keeps_blocks);
        Installer { place, owner, entropy, chain, supply, ways, recycled: 0 }
    }

    /// Makes segment `number`, meant for `len` bytes. When this returns, it has a name that lasts, and `CHAIN` says that it
    /// is the newest.
    pub fn install(&mut self, number: u64, len: u64) -> Result<Installed> {
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
        if !planted::is(Bug::WalChainFirst) {
            self.chain.name(newest)?;
        }
        self.recycled += u64::from(source == FileSource::Recycled);
        // Opened by its name, which errors tell.
        drop(file);
        let file = self.place.fs.overwrite(&path)?;
        Ok(Installed { header, file, way: self.ways.first(), block: 1, times: false })
    }

    /// The same behind another one, written as the device likes it.
    pub fn install_next(&mut self, number: u64, len: u64) -> Result<Installed> {
        let mut installed = self.install(number, len)?;
        installed.times = self.ways.is_open() && installed.file.len() >= len - len / 8;
        installed.way = self.ways.next();
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
