//! What a store stands on: the file systems of its parts, and what gives it its pool. All that an open makes and names
//! goes through here, so that a simulator sees each call, and power can fail between any two.

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "steps")]
use base::ErrorKind;
use base::{Error, Result};
#[cfg(feature = "steps")]
use pmem::Site;
use pmem::{
    Durability, FileLock, OpenMode, PmDevice, PmModel, PoolFile, Prefault, Probe, Region, Storage,
};
use pool::Format;
#[cfg(feature = "steps")]
use pool::Pool;
use ssd::{Device, Fs, Metered, PageCache};

use crate::admin::ZONE_CHANGE_BYTES;
use crate::engine::Means;
use crate::machine::MachineMemory;
#[cfg(feature = "steps")]
use crate::open::destroy::remove_if_there;
use crate::open::open_dram::LogFiles;
use crate::open::store_file::Memory;
use crate::options::{MemorySource, Options};
use crate::runtime::Runtime;
use crate::wal::{LogMedium, MemoryWorth, StreamedFiles};

/// Bytes of a new pool whose size the options leave open.
const POOL_LEN: u64 = 1 << 30;
/// Zones in a region with a log, where their length is chosen. Such regions are small, and what a batch and an operand may
/// have goes by the length of a zone.
const ZONES_OF_A_LOG: u64 = 64;

/// How much of a file must be zero to count as never used.
const BLANK_BYTES: u64 = 1 << 20;

/// What is at the place of a pool that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolPlace {
    /// No pool, or one in which nothing ever was.
    Blank,
    /// A pool, or something else that is not ours to change.
    Used,
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Nothing,
    File,
    Directory,
    /// Or a pipe or socket: nothing that can be made or removed here.
    Device,
}

/// Where the parts of a store are made and found.
pub(crate) trait Ground {
    /// The file system of directories, of `STORE`, and of the log. Through the page cache: what is written must outlive
    /// the process.
    fn names(&self) -> Arc<dyn Fs>;

    /// The files of a log in `dir`, which may be on other memory than the store.
    fn log(&self, dir: &Path) -> Result<LogFiles>;

    /// The file system of tables.
    fn tables(&self, options: &Options) -> Arc<dyn Fs>;

    /// The same, of tables on a device of their own.
    fn tables_on(&self, device: &Arc<Device>, options: &Options) -> Arc<dyn Fs>;

    /// Whether there is no pool at `at`, or one in which nothing ever was.
    fn is_blank(&self, at: &Path) -> Result<bool>;

    /// The pool at `at`, which has that name, and its length, whatever happens when this returns. Where the
    /// place is blank, it is made, or made longer; anything else is taken as it is, so that what is not ours is told and
    /// not touched.
    fn make_pool(&self, at: &Path, options: &Options, place: PoolPlace) -> Result<Arc<Region>>;

    /// Memory of this process, for a pool that nothing outlives.
    fn heap(&self, len: u64) -> Result<Region> {
        Region::heap(len, None)
    }

    /// The memory and threads that a store may use.
    fn means(&self) -> Means;

    /// The device that volatile memory stands for, if it stands for any.
    fn volatile_device(&self) -> Option<&PmDevice> {
        None
    }

    /// What the directory `dir` can do for a pool.
    fn probe(&self, dir: &Path) -> Probe;

    /// Bytes of the memory of a new store that is of the kind of `memory`.
    fn memory_len(&self, options: &Options, memory: &Memory) -> u64 {
        match (options.pm_size, memory) {
            (0, Memory::Pool(_)) => POOL_LEN,
            (0, Memory::Wal(_)) => self.means().memory.record_bytes(),
            (given, _) => given,
        }
    }

    /// Makes what a new pool in `region` begins with, its first `len` bytes, survive power failure, which a fence does not
    /// where the file is in the page cache.
    fn sync_pool(&self, at: &Path, region: &Region, len: u64) -> Result<()>;

    /// The pool at `at`, which is there.
    fn open_pool(&self, at: &Path, mode: OpenMode) -> Result<Arc<Region>>;

    /// What is at `at`. A place that cannot be looked at is an error: something may be there.
    fn what_is(&self, at: &Path) -> Result<Named>;

    /// Holds the file at `at`; none where no other open can come by.
    fn lock(&self, at: &Path, mode: OpenMode) -> Result<Option<FileLock>>;

    /// An identifier that no pool had before: it seeds every checksum.
    fn fresh_id(&self) -> Result<u64>;

    /// How a pool in `region` is laid out that begins with a snapshot of `snapshot` bytes.
    fn format(&self, region: &Region, snapshot: u64, options: &Options) -> Format {
        let len = region.len();
        let mut format = Format::for_len(len);
        if region.journal().is_some() {
            let share = 1_u64 << (len / ZONES_OF_A_LOG).max(1).ilog2();
            format.zone_len = share.clamp(64 << 10, 4 << 20);
        }
        format.manifest_len = format.manifest_len.max((4 * snapshot).next_power_of_two());
        if options.zone_size != 0 {
            format.zone_len = options.zone_size;
            // Half of the manifest may be taken by what it says of zones.
            let zones = len / options.zone_size * ZONE_CHANGE_BYTES;
            format.manifest_len = format.manifest_len.max((2 * zones).next_power_of_two());
        }
        format
    }
}

/// This machine.
pub(crate) struct Machine<'a> {
    /// Where `/proc` and `/sys` are.
    pub root: &'a Path,
    /// What stores of this process share, if they do.
    pub runtime: Option<&'a Runtime>,
    /// What memory a pool stands for, if not for the host's.
    pub pm_model: Option<PmModel>,
    /// The same, where what is in DRAM otherwise is there.
    pub volatile_device: Option<PmDevice>,
    /// The device of all files.
    pub device: Arc<Device>,
}

impl Machine<'static> {
    pub(crate) fn here() -> Machine<'static> {
        Machine {
            root: Path::new("/"),
            runtime: None,
            pm_model: None,
            volatile_device: None,
            device: Arc::new(Device::new(None)),
        }
    }

    /// With devices as slow as the options say.
    pub(crate) fn standing_for(options: &Options) -> Machine<'static> {
        let device = Arc::new(Device::new(options.ssd_model.clone()));
        let places = [&options.memtable_memory, &options.block_cache_memory];
        let has_places = places.iter().any(|place| **place != MemorySource::Dram);
        let volatile_device = options.pm_model.as_ref().filter(|_| has_places).map(PmDevice::new);
        Machine { pm_model: options.pm_model.clone(), volatile_device, device, ..Machine::here() }
    }
}

impl Machine<'_> {
    fn metered(&self, fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
        Arc::new(Metered::new(fs, Arc::clone(&self.device)))
    }

    /// Files of tables as the system has them.
    fn files(&self, options: &Options) -> Arc<dyn Fs> {
        match self.runtime {
            Some(runtime) => runtime.files.of(options.page_cache()),
            None => ssd::best(options.page_cache()),
        }
    }

    fn modelled(&self, region: Region) -> Region {
        match &self.pm_model {
            Some(model) => region.modelled(model),
            None => region,
        }
    }
}

impl Ground for Machine<'_> {
    fn names(&self) -> Arc<dyn Fs> {
        self.metered(Arc::new(ssd::Posix::new(PageCache::Used)))
    }

    fn log(&self, dir: &Path) -> Result<LogFiles> {
        let on_device = || LogFiles { fs: self.names(), medium: LogMedium::Device };
        let Probe { storage, why } = self.probe(dir);
        let durability = match storage {
            Storage::Device => return Ok(on_device()),
            Storage::Persistent(durability) => durability,
            // Files in memory stand for those of an SSD then.
            Storage::Volatile if self.device.is_modelled() && self.pm_model.is_none() => {
                return Ok(on_device());
            }
            Storage::Volatile => Durability::ProcessCrash,
        };
        let model = self.pm_model.as_ref().map(PmDevice::new);
        let posix = Arc::new(ssd::Posix::new(PageCache::Used));
        let fs = Arc::new(StreamedFiles::new(posix, durability, model.clone()));
        Ok(LogFiles { fs, medium: LogMedium::Memory(MemoryWorth { durability, why, model }) })
    }

    fn tables(&self, options: &Options) -> Arc<dyn Fs> {
        self.metered(self.files(options))
    }

    fn tables_on(&self, device: &Arc<Device>, options: &Options) -> Arc<dyn Fs> {
        Arc::new(Metered::new(self.files(options), Arc::clone(device)))
    }

    fn heap(&self, len: u64) -> Result<Region> {
        Region::heap(len, None).map(|region| self.modelled(region))
    }

    fn is_blank(&self, at: &Path) -> Result<bool> {
        let failed =
            |error| Error::io("open", format!("reading {}; look at its mode", at.display()), error);
        match self.what_is(at)? {
            Named::Nothing => Ok(true),
            Named::File => begins_blank(at).map_err(failed),
            Named::Directory | Named::Device => Ok(false),
        }
    }

    fn make_pool(&self, at: &Path, options: &Options, place: PoolPlace) -> Result<Arc<Region>> {
        let file = match std::fs::metadata(at) {
            // A device has its own size.
            Ok(meta)
                if place == PoolPlace::Used || !meta.is_file() || meta.len() >= options.pm_size =>
            {
                PoolFile::open(at, OpenMode::ReadWrite)?
            }
            _ => PoolFile::create(at, options.pm_size)?,
        };
        if !file.is_new() {
            file.make_durable()?;
        }
        file.map(Prefault::Now).map(|region| Arc::new(self.modelled(region)))
    }

    fn probe(&self, dir: &Path) -> Probe {
        Probe::of(dir, &self.root.join("sys"))
    }

    fn means(&self) -> Means {
        let memory = match self.root == Path::new("/") {
            true => MachineMemory::find(),
            false => MachineMemory::find_under(self.root),
        };
        Means {
            memory,
            runtime: self.runtime.cloned(),
            device: Arc::clone(&self.device),
            volatile_device: self.volatile_device.clone(),
        }
    }

    fn volatile_device(&self) -> Option<&PmDevice> {
        self.volatile_device.as_ref()
    }

    fn open_pool(&self, at: &Path, mode: OpenMode) -> Result<Arc<Region>> {
        let region = PoolFile::open(at, mode)?.map(Prefault::Lazy)?;
        Ok(Arc::new(self.modelled(region)))
    }

    fn sync_pool(&self, _: &Path, region: &Region, len: u64) -> Result<()> {
        region.sync_file(len)
    }

    fn what_is(&self, at: &Path) -> Result<Named> {
        match std::fs::metadata(at) {
            Ok(meta) if meta.is_file() => Ok(Named::File),
            Ok(meta) if meta.is_dir() => Ok(Named::Directory),
            Ok(_) => Ok(Named::Device),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Named::Nothing),
            Err(error) => {
                let text =
                    format!("{} cannot be looked at; see what is on the way to it", at.display());
                Err(Error::io("open", text, error))
            }
        }
    }

    fn lock(&self, at: &Path, mode: OpenMode) -> Result<Option<FileLock>> {
        FileLock::acquire(at, mode).map(Some)
    }

    fn fresh_id(&self) -> Result<u64> {
        use std::io::Read;
        let mut bytes = [0; 8];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| Error::io("open", "/dev/urandom", error))?;
        Ok(u64::from_le_bytes(bytes) | 1)
    }
}

/// Whether the first bytes of a file, as many as there are, are zeroes.
fn begins_blank(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(BLANK_BYTES).read_to_end(&mut head)?;
    Ok(head.iter().all(|byte| *byte == 0))
}

/// Ground that the caller made, for simulators: one file system, and one region that is the memory of any pool. A file
/// stands for the pool's name. It has a byte as long as what the pool begins with is there: in the page cache, which power
/// failure takes, until the pool is synced.
#[cfg(feature = "steps")]
pub struct Given {
    /// Where names, log and tables are.
    pub fs: Arc<dyn Fs>,
    /// The memory of the pool; of a store with a log, memory as long as its region is to be.
    pub memory: Arc<Region>,
    /// How a new pool is laid out.
    pub format: Format,
    /// Identifier of a new pool.
    pub id: u64,
    /// What `pm=auto` finds under any directory.
    pub storage: Storage,
}

#[cfg(feature = "steps")]
impl Given {
    /// A new file has zeroes, whatever the one before it had. Until they are durable it says that a pool is being made: a
    /// process that is killed here leaves others in front of what is not durable yet.
    fn clear(&self) {
        let len = self.memory.len() as usize;
        if self.memory.bytes(0, len).iter().all(|byte| *byte == 0) {
            return;
        }
        let _durable = pool::begin_format(&self.memory);
        let zeroes = self.memory.copy(Site::Format, 8, &vec![0; len - 8]);
        let _durable = self.memory.fence(self.memory.flush(zeroes));
        let first = self.memory.store_u64(Site::Format, 0, 0);
        let _durable = self.memory.fence(self.memory.flush(first));
    }

    /// Gives the file of a pool its byte.
    fn write(&self, at: &Path, synced: bool) -> Result<()> {
        remove_if_there(&*self.fs, at)?;
        let mut file = self.fs.create(at)?;
        file.append(b"P")?;
        if synced { file.sync() } else { Ok(()) }
    }

    fn is_lost(&self, at: &Path) -> Result<bool> {
        Ok(self.fs.open(at)?.is_empty())
    }
}

#[cfg(feature = "steps")]
impl Ground for Given {
    fn names(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.fs)
    }

    fn log(&self, _: &Path) -> Result<LogFiles> {
        Ok(LogFiles { fs: Arc::clone(&self.fs), medium: LogMedium::Device })
    }

    fn tables(&self, _: &Options) -> Arc<dyn Fs> {
        Arc::clone(&self.fs)
    }

    fn tables_on(&self, device: &Arc<Device>, _: &Options) -> Arc<dyn Fs> {
        Arc::new(Metered::new(Arc::clone(&self.fs), Arc::clone(device)))
    }

    fn is_blank(&self, at: &Path) -> Result<bool> {
        if !self.fs.exists(at)? || self.is_lost(at)? {
            return Ok(true);
        }
        let opened = Pool::open(Arc::clone(&self.memory));
        Ok(opened.is_err_and(|error| error.kind() == ErrorKind::NotFound))
    }

    fn make_pool(&self, at: &Path, _: &Options, _: PoolPlace) -> Result<Arc<Region>> {
        if !self.fs.exists(at)? || self.is_lost(at)? {
            self.clear();
            self.write(at, false)?;
        }
        self.fs.sync_dir(at.parent().unwrap_or(at))?;
        Ok(Arc::clone(&self.memory))
    }

    fn sync_pool(&self, at: &Path, _: &Region, _: u64) -> Result<()> {
        self.write(at, true)?;
        self.fs.sync_dir(at.parent().unwrap_or(at))
    }

    fn probe(&self, _: &Path) -> Probe {
        Probe { storage: self.storage, why: "simulated".into() }
    }

    fn means(&self) -> Means {
        // The same on every machine that simulates.
        Means::default()
    }

    fn memory_len(&self, _: &Options, _: &Memory) -> u64 {
        self.memory.len()
    }

    fn open_pool(&self, at: &Path, _: OpenMode) -> Result<Arc<Region>> {
        if self.is_lost(at)? {
            self.clear();
        }
        Ok(Arc::clone(&self.memory))
    }

    fn what_is(&self, at: &Path) -> Result<Named> {
        self.fs.exists(at).map(|is_there| if is_there { Named::File } else { Named::Nothing })
    }

    fn lock(&self, _: &Path, _: OpenMode) -> Result<Option<FileLock>> {
        Ok(None)
    }

    fn fresh_id(&self) -> Result<u64> {
        Ok(self.id)
    }

    fn format(&self, _: &Region, _: u64, _: &Options) -> Format {
        self.format
    }
}
