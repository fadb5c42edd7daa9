//! Making a store, or finishing one that was being made: directories, then the memory, then the name.
//!
//! Each is durable before the next is begun, and the name, the file `STORE`, comes last. So power failure at any moment
//! leaves either no store or a whole one; what is left of the former the next open goes on with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{OpenMode, Prefault, Region};
use pool::Pool;

use crate::engine::Access;
use crate::manifest::{ManifestState, file as manifest_file};
use crate::open::choose::NewMemory;
use crate::open::ground::{Ground, PoolPlace};
use crate::open::open_dram::{WAL, files, setting};
use crate::open::store_file::{Identity, Memory};
use crate::open::tiers::NamedTiers;
use crate::open::{OpenedParts, SST, choose, remains, tiers};
use crate::options::check::refuse_pm_model;
use crate::options::{Options, SsdSource};
use crate::tree::owner;
use crate::tree::tables::TableDir;
use crate::tree::tiers::OWN;
use crate::wal::{self, LogMedium, LogOwner};

/// The least memory of a store: room for a few zones and runs.
const MEMORY_LEN_MIN: u64 = 1 << 20;

/// Makes the store at `path`.
pub(crate) fn create(ground: &dyn Ground, path: &Path, options: &Options) -> Result<OpenedParts> {
    let look = || {
        let known = choose::named_or_left(ground, path, options)?;
        remains::refuse_to_hide(ground, path, known.as_ref().map(|known| &known.memory), options)?;
        Ok(known)
    };
    // Another open may have made its memory since this one saw none: the second look finds it, and then its lock is in the way.
    let known = look().or_else(|_: Error| look())?;
    check_size(options)?;
    tiers::refuse_unusable(ground, path, options)?;
    let names = ground.names();
    ssd::durable_dir(&*names, path)?;
    let NewMemory { memory, choice } =
        known.map_or_else(|| choose::by_directory(ground, path, options), Ok)?;
    let options = Options { pm_size: ground.memory_len(options, &memory), ..options.clone() };
    if let Memory::Wal(dir) = &memory
        && !wal::is_in(&*names, &path.join(dir))
    {
        choose::check_log_room(ground, &path.join(dir), options.pm_size)?;
    }
    if let Memory::Wal(dir) = &memory {
        choose::refuse_foreign_log(ground, path, dir)?;
    }
    let (ssd, table_dir) = new_table_dir(ground, path, &options)?;
    let mut identity = Identity { memory, ssd, tiers: Vec::new() };
    plant_named_first(ground, path, &identity)?;
    let first = || first_state(table_dir.as_ref()).map(Beginning::of_new_store);
    let (region, id) = make_memory(ground, path, &identity.memory, &options, &first)?;
    table_dir.as_ref().map_or(Ok(()), |table_dir| table_dir.claim(id, OWN))?;
    let tiers = tiers::of_store(ground, path, &mut identity, &options, Access::Write, || {
        Ok(NamedTiers { pool: id, numbers: Default::default(), highest: OWN })
    })?;
    identity.write(&*names, path)?;
    Ok(OpenedParts { choice, tiers, ..OpenedParts::whole(region, Prefault::Now, table_dir) })
}

/// Refuses a size in which nothing fits.
pub(crate) fn check_size(options: &Options) -> Result<()> {
    if options.pm_size == 0 || options.pm_size >= MEMORY_LEN_MIN {
        return Ok(());
    }
    let text = format!("pm_size={}: at least {MEMORY_LEN_MIN}, or 0", options.pm_size);
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// A planted bug: a store has its name before the memory that it names is made.
fn plant_named_first(ground: &dyn Ground, path: &Path, identity: &Identity) -> Result<()> {
    if planted::is(Bug::StoreNamedFirst) {
        identity.write(&*ground.names(), path)?;
    }
    Ok(())
}

/// What a new memory begins with.
pub(crate) struct Beginning {
    pub state: ManifestState,
    /// The identifier of the store that it becomes the memory of; a new store draws one.
    pub id: Option<u64>,
}

impl Beginning {
    pub fn of_new_store(state: ManifestState) -> Beginning {
        Beginning { state, id: None }
    }
}

/// The memory of the store at `path`, with the identifier of its pool: made, or finished if that was begun.
pub(super) fn make_memory(
    ground: &dyn Ground,
    path: &Path,
    memory: &Memory,
    options: &Options,
    first: &dyn Fn() -> Result<Beginning>,
) -> Result<(Arc<Region>, u64)> {
    match memory {
        Memory::Pool(pool) => make_pool(ground, &path.join(pool), options, first),
        Memory::Wal(dir) => make_log(ground, path, dir, options, first),
    }
}

fn make_pool(
    ground: &dyn Ground,
    at: &Path,
    options: &Options,
    first_state: &dyn Fn() -> Result<Beginning>,
) -> Result<(Arc<Region>, u64)> {
    // Before anything is made: what is damaged stays as it is.
    let first = match ground.is_blank(at)?.then(first_state) {
        // Another open has made the pool meanwhile.
        Some(Err(_)) if !ground.is_blank(at)? => None,
        first => first.transpose()?,
    };
    let place = if first.is_some() { PoolPlace::Blank } else { PoolPlace::Used };
    let region = ground.make_pool(at, options, place)?;
    let mut unsynced = None;
    let first = || {
        let first = first.map_or_else(first_state, Ok)?;
        unsynced = Some(match first.id {
            Some(_) => Bug::MovePoolUnsynced,
            None => Bug::NewPoolUnsynced,
        });
        Ok(first)
    };
    let pool = format_if_new(ground, &region, options, first)?;
    // Before anything else goes for it.
    if unsynced.is_some_and(|bug| !planted::is(bug)) {
        ground.sync_pool(at, &region, pool.geometry().data().start.get())?;
    }
    Ok((region, pool.id()))
}

/// Memory of the store at `path` that has its log in `named`.
fn make_log(
    ground: &dyn Ground,
    path: &Path,
    named: &Path,
    options: &Options,
    first_state: &dyn Fn() -> Result<Beginning>,
) -> Result<(Arc<Region>, u64)> {
    let (names, dir) = (ground.names(), &path.join(named));
    if named == Path::new(WAL) {
        refuse_pm_model(options)?;
    }
    ssd::durable_dir(&*names, dir)?;
    let files = files(ground, path, named)?;
    if let LogMedium::Device = files.medium {
        refuse_pm_model(options)?;
    }
    let setting = setting(ground, dir, files, options, OpenMode::ReadWrite)?;
    let begins = !wal::is_in(&*names, dir);
    // Before anything is made: what is damaged stays as it is.
    let first = begins.then(first_state).transpose()?;
    let id = first.as_ref().and_then(|first| first.id);
    let fresh = || {
        let id = id.map_or_else(|| ground.fresh_id(), Ok)?;
        Ok(Some(LogOwner { id, region_len: options.pm_size }))
    };
    let region = wal::open(setting, fresh)?.ok_or_else(|| {
        Error::new(ErrorKind::Internal, "open", "a new log gave no memory; report this")
    })?;
    let first = || first.map_or_else(first_state, Ok);
    let pool = format_if_new(ground, &region, options, first)?;
    region.sync_journal()?;
    Ok((region, pool.id()))
}

/// The directory of tables of a new store, as it is to be named and made.
fn new_table_dir(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
) -> Result<(Option<PathBuf>, Option<TableDir>)> {
    let ssd = match &options.ssd {
        SsdSource::Auto => Some(PathBuf::from(SST)),
        SsdSource::Path(given) => Some(choose::within(path, given)?),
        SsdSource::None => None,
    };
    let table_dir =
        ssd.as_ref().map(|dir| make_table_dir(ground, path.join(dir), options)).transpose()?;
    Ok((ssd, table_dir))
}

/// The directory of tables, made if need be.
pub(crate) fn make_table_dir(
    ground: &dyn Ground,
    dir: PathBuf,
    options: &Options,
) -> Result<TableDir> {
    let table_dir = TableDir { fs: ground.tables(options), dir };
    table_dir.make()?;
    Ok(table_dir)
}

/// Formats what no pool was ever in; a creation that was killed is finished that way. Returns the pool.
pub(crate) fn format_if_new(
    ground: &dyn Ground,
    region: &Arc<Region>,
    options: &Options,
    first: impl FnOnce() -> Result<Beginning>,
) -> Result<Pool> {
    match Pool::open(Arc::clone(region)) {
        Ok((pool, _)) => return Ok(pool),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let Beginning { state, id } = first()?;
    let snapshot = state.encode_snapshot();
    let format = ground.format(region, snapshot.len() as u64, options);
    let id = id.map_or_else(|| ground.fresh_id(), Ok)?;
    Pool::create(Arc::clone(region), format, id, &snapshot)
}

/// What a new pool begins with: nothing, or what the manifest file beside the tables says. Tables that no manifest names
/// are all that is left of some store, and the new one would remove them.
pub(crate) fn first_state(table_dir: Option<&TableDir>) -> Result<ManifestState> {
    let Some(table_dir) = table_dir else { return Ok(ManifestState::fresh()) };
    if let Some(state) = manifest_file::read(&*table_dir.fs, &table_dir.dir)? {
        return Ok(state);
    }
    if table_dir.present()?.is_empty() {
        owner::refuse_claimed(&*table_dir.fs, &table_dir.dir)?;
        return Ok(ManifestState::fresh());
    }
    Err(Error::corruption(
        "open",
        format!(
            "{} holds tables, but there is no pool and no {} to say what they are; put it back, save what they hold with \
             `strandline repair`, or name an empty directory",
            table_dir.dir.display(),
            manifest_file::NAME
        ),
    ))
}
