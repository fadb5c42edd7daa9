//! V: a store moves from one memory to another: from a pool to DRAM with a log, back, or to a pool elsewhere.
//!
//! - **V1** hold the store, as an open for writing does, and write all that is in its memory to tables in its directory
//! - **V2** the file `MOVE` says which memory is left for which other; nothing was at the place of the other
//! - **V3** make the other, which begins with a manifest that names these tables
//! - **V4** `STORE` names it: from here on it is the store's
//! - **V5** remove the one that was left, and then `MOVE`
//!
//! Each is durable before the next is begun, whatever the memory is: a pool in the page cache is synced before V4. What fails
//! before V4 is undone. An open for writing that finds `MOVE` does V5: one of the two memories is what `STORE` names, the other
//! goes, once the one that is named is whole. The store keeps its identifier, by which its memory and tables are known as its.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{Prefault, Region};

use crate::cache::StoreCache;
use crate::engine::{Access, Engine};
use crate::hooks::Hooks;
use crate::manifest::ManifestState;
use crate::open::create::{Beginning, check_size, make_memory};
use crate::open::destroy::remove_memory;
use crate::open::ground::{Ground, Named};
use crate::open::move_file::{self, Move};
use crate::open::store_file::{Identity, Memory};
use crate::open::{
    OpenedParts, SST, assemble, begin_tables, choose, is_checkpoint, open_at, tiers_of,
};
use crate::options::check::{StoreParts, check, check_pm_rooms};
use crate::options::{Options, PmSource, SsdSource, WalDir};
use crate::tree::room::FileRoom;
use crate::tree::tables::{TableDir, Tables};
use crate::tree::tiers::same_file;

const CONVERT: &str = "convert";

/// What [`Db::convert`](crate::Db::convert) did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversion {
    /// The memory that the store had.
    pub from: String,
    /// The memory that it has now: the same, if it was what was asked for.
    pub to: String,
}

/// Moves the store at `path` to the memory that `options.pm` says.
pub(crate) fn convert(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
    hooks: Hooks,
) -> Result<Conversion> {
    check(options)?;
    check_size(options)?;
    identity(ground, path)?;
    let engine = open_at(ground, path, source(options), hooks.clone(), Access::Write)?;
    // Now that it is held: it may have moved meanwhile.
    let named = identity(ground, path)?;
    let describe = |engine: &Engine| engine.media.region.describe();
    let from = describe(&engine);
    let Some(to) = target(ground, path, options, &named.memory)? else {
        return Ok(Conversion { to: from.clone(), from });
    };
    let parts = StoreParts { has_log: matches!(to, Memory::Wal(_)), has_tables: true };
    check_pm_rooms(options, parts)?;
    let options = Options { pm_size: ground.memory_len(options, &to), ..options.clone() };
    refuse_streams(&engine)?;
    // One move is told of at a time.
    move_file::remove_other(ground, path, &named.memory, Some(engine.media.pool.id()))?;
    refuse_device(ground, path, &named.memory)?;
    refuse_occupied(ground, path, &to, options.pm_size)?;

    let opened = move_store(ground, path, &engine, named, to, &options)?;
    drop(engine);
    // It opens as any other, and what no manifest names any more goes. It was held all the time: no one has come between.
    let options = Options { pm: PmSource::Auto, ssd: SsdSource::Auto, ..options };
    let moved = assemble(opened, options, hooks, Access::Write, ground.means())?;
    let to = describe(&moved);
    moved.close_unless_held()?;
    Ok(Conversion { from, to })
}

/// What streams are yet to give lies in the memory that is left.
fn refuse_streams(engine: &Engine) -> Result<()> {
    let streams = engine.streams.slots();
    if streams.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = streams.iter().map(|slot| &slot.name[..]).collect();
    let text = format!(
        "the store has change streams, and what they are yet to give stays in the memory that it has; drop them first: {}",
        names.join(", ")
    );
    refused(ErrorKind::InvalidArgument, text)
}

/// What the store at `path` names.
fn identity(ground: &dyn Ground, path: &Path) -> Result<Identity> {
    let names = ground.names();
    if let Some(named) = Identity::read(&*names, path)? {
        return Ok(named);
    }
    if is_checkpoint(&*names, path)? {
        let text = format!(
            "{} is a checkpoint, which has no memory yet; open it for writing with the pm that you want",
            path.display()
        );
        return refused(ErrorKind::InvalidArgument, text);
    }
    refused(ErrorKind::NotFound, format!("no store at {}; look at the path", path.display()))
}

/// V1 to V5. The new memory is held from the moment that it is made.
fn move_store(
    ground: &dyn Ground,
    path: &Path,
    engine: &Engine,
    named: Identity,
    to: Memory,
    options: &Options,
) -> Result<OpenedParts> {
    let ssd = tables_place(path, &named, options)?;
    // A store that had no tables keeps the directory, whatever comes: each open removes from it what no manifest names.
    let region = &engine.media.region;
    let mut named = named;
    let table_dir = begin_tables(ground, path, &mut named, ssd, options, region)?;
    let tiers = tiers_of(ground, path, &mut named, options, Access::Write, region)?;
    let steps = Move { from: named.memory.clone(), to };
    let identity = Identity { memory: steps.to.clone(), ..named };
    let made = match make_and_name(ground, path, engine, &steps, &identity, &table_dir, options) {
        Ok(made) => made,
        Err(error) => {
            undo(ground, path, engine, &steps, &table_dir);
            return Err(error);
        }
    };
    if let Err(error) = engine.close_unless_held() {
        let text = format!(
            "the store has moved, and the next open for writing removes what it had: {error}"
        );
        return refused(error.kind(), text);
    }
    match move_file::remove_moved(ground, path, &steps.from, Some(engine.media.pool.id())) {
        // An open that has read the old name holds what it names for a moment. The next open removes it.
        Err(error) if error.kind() == ErrorKind::Busy => {}
        Err(error) => {
            let text = format!(
                "the store has moved, but what it had is still there; the next open for writing removes it: {error}"
            );
            return refused(error.kind(), text);
        }
        Ok(()) => {}
    }
    Ok(OpenedParts { tiers, ..OpenedParts::whole(made, Prefault::Now, Some(table_dir)) })
}

/// V1 to V4.
fn make_and_name(
    ground: &dyn Ground,
    path: &Path,
    engine: &Engine,
    steps: &Move,
    identity: &Identity,
    table_dir: &TableDir,
    options: &Options,
) -> Result<Arc<Region>> {
    let names = ground.names();
    let state = to_tables(engine, table_dir)?;
    if !planted::is(Bug::MoveUntold) {
        steps.write(&*names, path)?;
    }
    if planted::is(Bug::MoveNamedFirst) {
        identity.write(&*names, path)?;
    }
    if planted::is(Bug::MoveRemovesFirst) {
        remove_memory(&*names, path, &steps.from)?;
    }
    let id = Some(engine.media.pool.id());
    let first = || Ok(Beginning { state: state.clone(), id });
    let (made, _) = make_memory(ground, path, &steps.to, options, &first)?;
    identity.write(&*names, path)?;
    Ok(made)
}

/// Takes back what was done before V4. What cannot be removed now, the next open removes.
fn undo(ground: &dyn Ground, path: &Path, engine: &Engine, steps: &Move, table_dir: &TableDir) {
    // A name that was given, and could not be made durable, may last all the same.
    let named = Identity::read(&*ground.names(), path).ok().flatten();
    if named.is_none_or(|named| named.memory != steps.from) {
        return;
    }
    let _later = move_file::finish(ground, path, &steps.from, &engine.media.region);
    let tables = Tables::new(table_dir.clone(), FileRoom::unlimited(), StoreCache::own(0));
    let _later = tables.sweep(&engine.manifest.lock().state.files());
}

/// V1: all data is in tables, which are durable. Nothing runs beside this, so the state stays what it is.
fn to_tables(engine: &Engine, table_dir: &TableDir) -> Result<ManifestState> {
    if let Some(space) = engine.keyspaces.all().iter().find(|space| space.lost.is_some()) {
        return Err(Error::corruption(
            CONVERT,
            format!(
                "keyspace {} lost records to damage; save the rest with `strandline repair`",
                space.name
            ),
        ));
    }
    let (_, state) = engine.copy_to_tables(table_dir.clone())?;
    if !planted::is(Bug::MoveTablesUnsynced) {
        table_dir.fs.sync_dir(&table_dir.dir)?;
    }
    Ok(state)
}

/// How the store is opened that is to be moved: as it is, and at rest.
fn source(options: &Options) -> Options {
    Options {
        pm: PmSource::Auto,
        wal_dir: WalDir::Auto,
        pm_tables: 0,
        pm_values: 0,
        pm_cache: 0,
        level0: Options::default().level0,
        create_if_missing: false,
        background_threads: 0,
        inspect: false,
        ..options.clone()
    }
}

/// The memory that is asked for, unless it is what the store has.
fn target(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
    named: &Memory,
) -> Result<Option<Memory>> {
    let to = match &options.pm {
        PmSource::Heap => {
            let text = "a heap store is in this process alone; name dram, auto or a path";
            return refused(ErrorKind::InvalidArgument, text.into());
        }
        PmSource::Dram => Memory::Wal(choose::log_place(path, options)?),
        PmSource::Path(given) => Memory::Pool(choose::within(path, given)?),
        PmSource::Auto => choose::by_directory(ground, path, options)?.memory,
    };
    let stays = match (named, &to) {
        (Memory::Wal(now), Memory::Wal(then))
            if options.wal_dir != WalDir::Auto && !same_file(&path.join(now), &path.join(then)) =>
        {
            let text = format!(
                "the log is in {}, and a log is not moved to another directory at once; convert to a pool (pm=PATH), and that to \
                 pm=dram with this wal_dir",
                path.join(now).display()
            );
            return refused(ErrorKind::InvalidArgument, text);
        }
        (Memory::Wal(_), Memory::Wal(_)) => true,
        // What the directory can do, the pool has already, wherever it is.
        (Memory::Pool(_), Memory::Pool(_)) if options.pm == PmSource::Auto => true,
        (Memory::Pool(now), Memory::Pool(then)) => same_file(&path.join(now), &path.join(then)),
        _ => false,
    };
    Ok((!stays).then_some(to))
}

/// The directory where all data goes, as `STORE` names it; a store that has none gets one.
fn tables_place(path: &Path, named: &Identity, options: &Options) -> Result<PathBuf> {
    match (&named.ssd, &options.ssd) {
        (Some(dir), _) => Ok(dir.clone()),
        (None, SsdSource::Path(given)) => choose::within(path, given),
        (None, SsdSource::Auto) => Ok(PathBuf::from(SST)),
        (None, SsdSource::None) => {
            let text = "the data goes from one memory to the other as tables; give ssd a directory, or leave it out";
            refused(ErrorKind::InvalidArgument, text.into())
        }
    }
}

/// Refuses to leave, or to make, a pool that is a device.
fn refuse_device(ground: &dyn Ground, path: &Path, memory: &Memory) -> Result<()> {
    let Memory::Pool(pool) = memory else { return Ok(()) };
    let at = path.join(pool);
    if ground.what_is(&at)? != Named::Device {
        return Ok(());
    }
    let text = format!(
        "{} is a device, where nothing can be removed; take a checkpoint instead, and open that with the pm that you want",
        at.display()
    );
    refused(ErrorKind::InvalidArgument, text)
}

/// Refuses to make memory where something is, or where there is no room for it.
fn refuse_occupied(ground: &dyn Ground, path: &Path, to: &Memory, len: u64) -> Result<()> {
    let names = ground.names();
    refuse_device(ground, path, to)?;
    let occupied = |at: &Path| {
        let text = format!("{} has something in it; name another place, or move it", at.display());
        refused(ErrorKind::Exists, text)
    };
    let pool = match to {
        Memory::Wal(dir) if crate::wal::is_in(&*names, &path.join(dir)) => {
            return occupied(&path.join(dir));
        }
        Memory::Wal(dir) => return choose::check_log_room(ground, &path.join(dir), len),
        Memory::Pool(pool) => path.join(pool),
    };
    match ground.what_is(&pool)? {
        Named::Nothing => {}
        Named::Directory => {
            let text = format!(
                "{} is a directory, and a pool is a file; name one in it that is not there yet",
                pool.display()
            );
            return refused(ErrorKind::InvalidArgument, text);
        }
        Named::File | Named::Device => return occupied(&pool),
    }
    match pool.parent() {
        Some(dir) if !names.exists(dir)? => {
            let text = format!("there is no directory {} for the pool; make it", dir.display());
            refused(ErrorKind::NotFound, text)
        }
        _ => Ok(()),
    }
}

fn refused<T>(kind: ErrorKind, text: String) -> Result<T> {
    Err(Error::new(kind, CONVERT, text))
}
