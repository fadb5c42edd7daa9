//! What is left of a store where another would be made: a new one beside it would be empty, and would hide it.

use std::path::Path;

use base::{Error, ErrorKind, Result};

use crate::manifest::file as manifest_file;
use crate::open::ground::Ground;
use crate::open::open_dram::WAL;
use crate::open::store_file::{IDENTITY, Memory};
use crate::open::{POOL, SST, absolute};
use crate::options::{Options, SsdSource};
use crate::tree::names::FileName;
use crate::tree::tiers::same_file;
use crate::wal;

/// Refuses a store in memory of this process where there is one that outlived another: it would begin with nothing.
pub(crate) fn refuse_heap(ground: &dyn Ground, path: &Path) -> Result<()> {
    let names = [path.join(IDENTITY), path.join(SST).join(manifest_file::NAME)];
    let found = names.into_iter().find(|name| ground.names().exists(name).unwrap_or(false));
    let found = found.or_else(|| has_pool(ground, path).then(|| path.join(POOL)));
    let found = found.or_else(|| has_log(ground, path).then(|| path.join(WAL)));
    let Some(found) = found else { return Ok(()) };
    refuse(format!(
        "{} belongs to a store, and with pm=heap an empty one would be opened instead of it; leave pm out, or name a \
         directory without a store",
        found.display()
    ))
}

/// The memory of a store that was not completely made, or has lost its `STORE` file, in the usual places. A log counts
/// before a file that has nothing in it, and nothing goes before one of both that has something: such a pair is refused
/// by [`refuse_to_hide`].
pub(super) fn memory_left(ground: &dyn Ground, path: &Path) -> Result<Option<Memory>> {
    let names = ground.names();
    let (pool, wal) = (path.join(POOL), path.join(WAL));
    if has_pool(ground, path) {
        return Ok(Some(Memory::Pool(POOL.into())));
    }
    if has_log(ground, path) {
        return Ok(Some(Memory::Wal(WAL.into())));
    }
    // What was begun, and has nothing in it yet.
    if names.exists(&pool)? {
        return Ok(Some(Memory::Pool(POOL.into())));
    }
    let begun = names.list(&wal).is_ok_and(|names| !names.is_empty());
    Ok(begun.then(|| Memory::Wal(WAL.into())))
}

/// Refuses to make a store where the parts of one lie that has lost its `STORE` file, or was not completely made, unless
/// they are the parts that the new one would have. `memory` is where its records are to be, if that is known: else there
/// is neither pool nor log.
pub(super) fn refuse_to_hide(
    ground: &dyn Ground,
    path: &Path,
    memory: Option<&Memory>,
    options: &Options,
) -> Result<()> {
    let (pool, log) = (path.join(POOL), path.join(WAL));
    let takes_pool = matches!(memory, Some(Memory::Pool(at)) if same_file(&path.join(at), &pool));
    if !takes_pool && has_pool(ground, path) {
        let what = format!("{}, which is a store's, would not be in it", pool.display());
        return refuse(format!(
            "a new store in {} was asked for; {what}; leave pm out",
            path.display()
        ));
    }
    let takes_log = matches!(memory, Some(Memory::Wal(at)) if same_file(&path.join(at), &log));
    if !takes_log && has_log(ground, path) {
        let what = format!("the log in {}, which is a store's, would not be in it", log.display());
        return refuse(format!(
            "a new store in {} was asked for; {what}; open it with pm=dram",
            path.display()
        ));
    }
    let tables = path.join(SST);
    let takes_tables = match &options.ssd {
        SsdSource::Auto => true,
        SsdSource::Path(given) => same_file(&absolute(given)?, &tables),
        SsdSource::None => has_pool(ground, path) || has_log(ground, path),
    };
    if !takes_tables && has_tables(ground, &tables) {
        let what =
            format!("{} holds tables of a store, which would not be in it", tables.display());
        return refuse(format!(
            "a new store in {} was asked for; {what}; leave ssd out",
            path.display()
        ));
    }
    Ok(())
}

fn refuse(text: String) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// Whether the usual place of a pool has something that is not blank, as what a killed creation leaves may be.
fn has_pool(ground: &dyn Ground, path: &Path) -> bool {
    !ground.is_blank(&path.join(POOL)).unwrap_or(true)
}

fn has_log(ground: &dyn Ground, path: &Path) -> bool {
    wal::is_in(&*ground.names(), &path.join(WAL))
}

fn has_tables(ground: &dyn Ground, dir: &Path) -> bool {
    let names = ground.names().list(dir).unwrap_or_default();
    names.iter().any(|name| FileName::parse(name).is_some())
}
