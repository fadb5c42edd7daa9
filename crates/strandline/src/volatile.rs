//! Places in volatile persistent memory: files without a name, in a directory that an option names, which go with the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{Journal, PmDevice, Probe, Region, Storage, VolatileFile};

use crate::options::{MemorySource, Options};

/// Bytes of a file that shows whether files can be made and mapped.
const PROBE: u64 = 64 << 10;

/// Where an option puts what is in DRAM otherwise.
#[derive(Clone)]
pub(crate) struct VolatilePlace {
    option: &'static str,
    pub dir: PathBuf,
    /// The slower memory that it stands for.
    device: Option<PmDevice>,
}

impl VolatilePlace {
    /// The place that `option` has given; none where that is DRAM.
    pub fn of(
        option: &'static str,
        given: &MemorySource,
        device: Option<&PmDevice>,
    ) -> Option<VolatilePlace> {
        let MemorySource::Dir(dir) = given else { return None };
        Some(VolatilePlace { option, dir: dir.clone(), device: device.cloned() })
    }

    /// Refuses places where nothing can be, before a store is made.
    ///
    /// # Errors
    /// As [`Self::region`].
    pub fn check_all(options: &Options) -> Result<()> {
        let places = [
            VolatilePlace::of("memtable_memory", &options.memtable_memory, None),
            VolatilePlace::of("block_cache_memory", &options.block_cache_memory, None),
        ];
        places.iter().flatten().try_for_each(|place| place.region(PROBE).map(drop))
    }

    /// `len` bytes there.
    ///
    /// # Errors
    /// `InvalidArgument`: there is no such directory, or it is not in memory. `NoSpace`: it has less. `ReadOnly`, `Io`: no
    /// file can be made or mapped there. All name the option.
    pub fn region(&self, len: u64) -> Result<Region> {
        let map = |file: VolatileFile| file.map(self.device.as_ref());
        self.file(len).and_then(map).map_err(|error| self.named(error))
    }

    /// The same, kept by `journal`.
    ///
    /// # Errors
    /// As [`Self::region`].
    pub fn journaled(&self, len: u64, journal: Arc<dyn Journal>) -> Result<Region> {
        let map = |file| Region::journaled_in(file, self.device.as_ref(), journal);
        self.file(len).and_then(map).map_err(|error| self.named(error))
    }

    fn file(&self, len: u64) -> Result<VolatileFile> {
        if self.dir.is_dir() {
            let Probe { storage, why } = Probe::of(&self.dir, Path::new("/sys"));
            if storage == Storage::Device {
                let text = format!(
                    "what is mapped there is no memory, because {why}; name a directory on persistent memory (DAX) or on tmpfs"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
            }
        }
        VolatileFile::create(&self.dir, len)
    }

    fn named(&self, error: Error) -> Error {
        let text = format!("{}={}: {}", self.option, self.dir.display(), error.context());
        let kind = match error.kind() {
            // The store is not what is missing.
            ErrorKind::NotFound => ErrorKind::InvalidArgument,
            kind => kind,
        };
        let named = Error::new(kind, "open", text);
        // All others have said what there is to say.
        if error.kind() == ErrorKind::Io { named.with_source(error) } else { named }
    }
}
