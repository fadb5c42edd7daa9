//! What is left of a store where another would be made: a new one beside it would be empty, and would hide it.

use std::path::Path;

use base::{Error, ErrorKind, Result};

use crate::manifest::file as manifest_file;
use crate::open::ground::Ground;
use crate::open::open_dram::WAL;
use crate::open::store_file::IDENTITY;
use crate::open::{POOL, SST, absolute, same_file};
use crate::options::{Options, PmSource, SsdSource};
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

/// Refuses to make a store where the parts of one lie that has lost its `STORE` file, or was not completely made, unless
/// they are the parts that the new one would have.
pub(crate) fn refuse_to_hide(ground: &dyn Ground, path: &Path, options: &Options) -> Result<()> {
    let (pool, log) = (path.join(POOL), path.join(WAL));
    let takes_pool = match &options.pm {
        PmSource::Path(given) => same_file(&absolute(given)?, &pool),
        pm => *pm == PmSource::Auto,
    };
    if !takes_pool && has_pool(ground, path) {
        let what = format!("{}, which is a store's, would not be in it", pool.display());
        return refuse(format!(
            "a new store in {} was asked for; {what}; leave pm out",
            path.display()
        ));
    }
    if options.pm != PmSource::Dram && has_log(ground, path) {
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
    names.iter().any(|name| name.ends_with(".sst"))
}
