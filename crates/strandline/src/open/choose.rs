//! Where a new store gets its records: as the options say, or, with `pm=auto`, as the directory can.
//!
//! What is there goes before what could be: the file `STORE` of a whole store was read before this, and what is left of
//! another is finished as what it is. Else a second memory would be made beside the first, which nothing would find again.

use std::path::{Path, PathBuf};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{Durability, Probe, Region, Storage};

use crate::machine::{ChosenBy, PmChoice};
use crate::open::ground::Ground;
use crate::open::open_dram::WAL;
use crate::open::store_file::{Memory, check_name, is_inside};
use crate::open::{POOL, absolute, remains};
use crate::options::{MemorySource, Options, PmSource, WalDir};
use crate::wal;

/// Where a new store gets its records.
pub(super) struct NewMemory {
    pub memory: Memory,
    pub choice: PmChoice,
}

/// What the options say, or what is left of a store in the directory; `None` where the directory is to be asked.
pub(super) fn named_or_left(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
) -> Result<Option<NewMemory>> {
    let named = |memory| NewMemory { memory, choice: PmChoice::by(ChosenBy::Option) };
    match &options.pm {
        PmSource::Dram => Ok(Some(named(Memory::Wal(log_place(path, options)?)))),
        PmSource::Path(given) => {
            refuse_wal_dir(path, options, "a pool, which has no log")?;
            Ok(Some(named(Memory::Pool(within(path, given)?))))
        }
        _ if planted::is(Bug::RemainsNotFinished) => Ok(None),
        _ => remains::memory_left(ground, path)?.map_or(Ok(None), |memory| {
            refuse_wal_dir(path, options, "its memory in its directory")?;
            Ok(Some({
                let found = match &memory {
                    Memory::Pool(_) => "a pool was there, and is used",
                    Memory::Wal(_) => "a log was there, and is gone on with",
                };
                let choice = PmChoice { by: ChosenBy::Remains, found: found.into() };
                NewMemory { memory, choice }
            }))
        }),
    }
}

/// A place as `STORE` is to name it: from the directory of the store on if it is in there, so that both move together.
pub(super) fn within(path: &Path, given: &Path) -> Result<PathBuf> {
    let given = absolute(given)?;
    let inside = given.strip_prefix(absolute(path)?).ok().filter(|name| is_inside(name));
    let place = inside.map(Path::to_owned).unwrap_or(given);
    check_name(&place)?;
    Ok(place)
}

/// Where a new log is to be, as `STORE` is to name it.
pub(super) fn log_place(path: &Path, options: &Options) -> Result<PathBuf> {
    match &options.wal_dir {
        WalDir::Auto => Ok(PathBuf::from(WAL)),
        WalDir::Path(given) => within(path, given),
    }
}

/// Refuses a place for a new log that is not in the directory of the store and has a log: it is another store's, or what is left
/// of one, and nothing tells which.
pub(super) fn refuse_foreign_log(ground: &dyn Ground, path: &Path, dir: &Path) -> Result<()> {
    let at = path.join(dir);
    if is_inside(dir) || !wal::is_in(&*ground.names(), &at) {
        return Ok(());
    }
    let text = format!(
        "{} holds a log already; name another wal_dir, or remove what is there if no store has it: one whose making was cut short \
         leaves some",
        at.display()
    );
    Err(Error::new(ErrorKind::Exists, "open", text))
}

/// Refuses places for a log, and for what is in DRAM beside one, where the store has none.
pub(super) fn refuse_wal_dir(path: &Path, options: &Options, has: &str) -> Result<()> {
    let log = match &options.wal_dir {
        WalDir::Path(given) => Some(("wal_dir", given)),
        WalDir::Auto => None,
    };
    let places = [
        ("memtable_memory", &options.memtable_memory),
        ("block_cache_memory", &options.block_cache_memory),
    ];
    let place = places.into_iter().find_map(|(name, memory)| match memory {
        MemorySource::Dir(given) => Some((name, given)),
        MemorySource::Dram => None,
    });
    let Some((name, given)) = log.or(place) else { return Ok(()) };
    let text = format!(
        "{name}={}: {} has {has}; leave {name} out, or give pm=dram for a new store",
        given.display(),
        path.display()
    );
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// What the directory `path`, which is there, can do.
pub(super) fn by_directory(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
) -> Result<NewMemory> {
    let Probe { storage, why } = ground.probe(path);
    let (mut memory, what) = by_storage(storage, options);
    match &mut memory {
        Memory::Wal(place) => *place = log_place(path, options)?,
        Memory::Pool(_) => refuse_wal_dir(path, options, "a pool, which has no log")?,
    }
    let choice = PmChoice { by: ChosenBy::Directory, found: format!("{why}; {what}") };
    Ok(NewMemory { memory, choice })
}

/// What a store gets on `storage`, and why, in words.
fn by_storage(storage: Storage, options: &Options) -> (Memory, &'static str) {
    match storage {
        Storage::Persistent(_) => (Memory::Pool(POOL.into()), "records are in a pool there"),
        // A log there would outlive no more.
        Storage::Volatile => (Memory::Pool(POOL.into()), "a pool there emulates persistent memory"),
        Storage::Device if options.pm_tables > 0 => (
            Memory::Pool(POOL.into()),
            "tables in persistent memory (pm_tables) need a pool all the same",
        ),
        Storage::Device if options.pm_values > 0 => (
            Memory::Pool(POOL.into()),
            "values in persistent memory (pm_values) need a pool all the same",
        ),
        Storage::Device if options.pm_cache > 0 => (
            Memory::Pool(POOL.into()),
            "a cache in persistent memory (pm_cache) needs a pool all the same",
        ),
        Storage::Device => (Memory::Wal(WAL.into()), "records are in DRAM, with a log there"),
    }
}

/// What could be said for another memory of a store that is there; nothing, if it is what a new one would have.
pub(super) fn could_be(
    ground: &dyn Ground,
    path: &Path,
    memory: &Memory,
    region: &Region,
    options: &Options,
) -> String {
    let ends_with_power = region.durability() == Durability::ProcessCrash;
    if !ends_with_power || !matches!(memory, Memory::Pool(_)) {
        return String::new();
    }
    // That of the store, where its log would be, wherever its pool is.
    let Probe { storage, why } = ground.probe(path);
    match by_storage(storage, options) {
        (Memory::Wal(_), _) => format!(
            "{why}; `strandline convert --pm dram` moves its records to DRAM, with a log that survives power failure"
        ),
        (Memory::Pool(_), _) => String::new(),
    }
}

/// Refuses a new store whose log would not fit its device.
pub(super) fn check_log_room(ground: &dyn Ground, path: &Path, len: u64) -> Result<()> {
    let wanted = wal::most_bytes(len);
    let names = ground.names();
    // Its directory may not be there yet. Who cannot be asked may have it.
    let there = path.ancestors().find(|at| names.exists(at).unwrap_or(false));
    let free = there.map_or(u64::MAX, |at| names.free_bytes(at).unwrap_or(u64::MAX));
    if free >= wanted {
        return Ok(());
    }
    let text = format!(
        "{}: the log of {len} bytes of records in DRAM takes up to {wanted} bytes, and there are {free}; free space there, \
         ask for less with pm_size, or name another directory",
        path.display()
    );
    Err(Error::new(ErrorKind::NoSpace, "open", text))
}
