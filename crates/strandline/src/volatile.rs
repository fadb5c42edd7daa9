//! Places in volatile persistent memory: files without a name, in a directory that an option names, which go with the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{Journal, PmDevice, Probe, Region, Storage, VolatileFile};

use crate::options::MemorySource;

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

    /// `len` bytes there.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`: there is no such directory, or it is not in memory. `NoSpace`: it has less. `ReadOnly`, `Io`: no
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
        Error::new(error.kind(), "open", text).with_source(error)
    }
}
