//! Which directories are the tiers of a store: what its file `STORE` and the option `tiers` say, and what is in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pool::{Pool, Replay};
use ssd::{Device, Fs};

use crate::engine::Access;
use crate::manifest::ManifestState;
use crate::open::choose;
use crate::open::ground::Ground;
use crate::open::store_file::{Identity, StoredTier};
use crate::options::{Options, SsdSource, TierSource, TierSpec};
use crate::tree::owner::{self, DirClaim};
use crate::tree::tables::TableDir;
use crate::tree::tiers::{OWN, TierDir, TierUse, same_file};

/// The pool of a store, and the tiers that its manifest names.
pub(crate) struct NamedTiers {
    pub pool: u64,
    /// Those in which it names files.
    pub numbers: BTreeSet<u32>,
    /// The highest that options of a keyspace name. The store may have left it: no other directory becomes it.
    pub highest: u32,
}

impl NamedTiers {
    /// What the log of `pool` says.
    pub(crate) fn of(pool: &Pool, replay: &Replay) -> Result<NamedTiers> {
        let state = ManifestState::replay(&replay.payloads)?;
        let numbers = state.files().into_iter().map(|place| place.tier).collect();
        let spaces = state.keyspaces.values();
        let highest = spaces.flat_map(|space| space.options.tiers.iter()).max().unwrap_or(OWN);
        Ok(NamedTiers { pool: pool.id(), numbers, highest })
    }
}

/// A directory of a store, whichever of its tiers it is.
#[derive(Clone)]
pub(crate) struct GivenTier {
    pub at: TableDir,
    pub size: u64,
    pub use_: TierUse,
    /// A device of its own; none: that of the store.
    pub device: Option<Arc<Device>>,
}

/// The directories that the store at `path` names besides its own, and those of the options; what the options change, `named`
/// says from then on. Empty: the own directory is the only one.
pub(super) fn of_store(
    ground: &dyn Ground,
    path: &Path,
    named: &mut Identity,
    options: &Options,
    access: Access,
    pool: impl Fn() -> Result<NamedTiers>,
) -> Result<Vec<GivenTier>> {
    let fs = ground.tables(options);
    let wanted = match &options.tiers {
        TierSource::Auto => named.tiers.clone(),
        TierSource::Dirs(_) if named.ssd.is_none() => {
            return Err(no_tables());
        }
        TierSource::Dirs(dirs) => {
            let given = dirs.iter().map(|given| {
                let dir = choose::within(path, &given.dir)?;
                Ok(StoredTier { dir, size: given.size, use_: TierUse::Open })
            });
            let mut wanted = given.collect::<Result<Vec<StoredTier>>>()?;
            // What is left out leaves, if it has anything.
            for tier in &named.tiers {
                let at = path.join(&tier.dir);
                let is_own = named.ssd.as_ref().is_some_and(|own| same_file(&path.join(own), &at));
                let stays = wanted.iter().any(|each| same_file(&path.join(&each.dir), &at));
                if !stays && !is_own {
                    wanted.push(StoredTier { use_: TierUse::Leaving, ..tier.clone() });
                }
            }
            wanted
        }
    };
    let mut wanted = wanted;
    let at = |tier: &StoredTier| TableDir { fs: fs.clone(), dir: path.join(&tier.dir) };
    let leaves = wanted.iter().any(|tier| tier.use_ == TierUse::Leaving);
    if access == Access::Write && (leaves || wanted != named.tiers) {
        let NamedTiers { pool, numbers, .. } = pool()?;
        let number = |tier: &StoredTier| owner::read(&*fs, &path.join(&tier.dir)).ok().flatten();
        let found: BTreeSet<u32> =
            wanted.iter().filter_map(number).map(|claim| claim.tier).collect();
        // Files may lie in a directory that is not there now: it is forgotten only if no edit names it (I-TIER-3).
        let elsewhere = numbers.iter().all(|no| *no == OWN || found.contains(no));
        wanted.retain(|tier| {
            let at = at(tier);
            let is_named = match number(tier) {
                Some(claim) => numbers.contains(&claim.tier),
                None => !elsewhere,
            };
            // What no edit names is swept first.
            let is_empty = at.present().is_ok_and(|all| all.is_empty());
            let goes = tier.use_ == TierUse::Leaving && !is_named && is_empty;
            if goes {
                at.give_up(pool);
            }
            !goes
        });
        if wanted != named.tiers {
            let open = wanted.iter().filter(|tier| tier.use_ == TierUse::Open);
            open.map(at).try_for_each(|at| refuse_foreign(&at, pool))?;
            named.tiers.clone_from(&wanted);
        }
    }
    let given = wanted.iter().map(|tier| {
        let at = at(tier);
        let is_it = |given: &&TierSpec| same_file(&path.join(&given.dir), &at.dir);
        // Only the open that names it has it.
        let device = match &options.tiers {
            TierSource::Dirs(dirs) => dirs.iter().find(is_it).and_then(device_of),
            TierSource::Auto => None,
        };
        let at = match &device {
            Some(device) => TableDir { fs: ground.tables_on(device, options), ..at },
            None => at,
        };
        GivenTier { at, size: tier.size, use_: tier.use_, device }
    });
    Ok(given.collect())
}

fn no_tables() -> Error {
    let text = "tiers are for tables, which this store has none of; give ssd a directory";
    Error::new(ErrorKind::InvalidArgument, "open", text)
}

/// Refuses directories of the options that cannot be tiers, before anything of a new store is made.
///
/// # Errors
/// `InvalidArgument` where one is named twice; those of reading what is in them.
pub(super) fn refuse_unusable(ground: &dyn Ground, path: &Path, options: &Options) -> Result<()> {
    let TierSource::Dirs(dirs) = &options.tiers else { return Ok(()) };
    if options.ssd == SsdSource::None {
        return Err(no_tables());
    }
    let fs = ground.tables(options);
    let mut earlier: Vec<PathBuf> = Vec::new();
    for given in dirs {
        let dir = path.join(choose::within(path, &given.dir)?);
        if earlier.iter().any(|other| same_file(other, &dir)) {
            return Err(twice(&dir, &dir, OWN));
        }
        // Whose it is counts once the store has a number; a file in the way shows here.
        owner::read(&*fs, &dir)?;
        earlier.push(dir);
    }
    Ok(())
}

/// The device that a directory has for itself.
fn device_of(given: &TierSpec) -> Option<Arc<Device>> {
    given.model.clone().map(|model| Arc::new(Device::new(Some(model))))
}

/// The directories of the options, for a store that no file names. Their files are those of `fs`, or `on` devices of their own.
pub(crate) fn of_options(
    fs: &Arc<dyn Fs>,
    options: &Options,
    on: impl Fn(&Arc<Device>) -> Arc<dyn Fs>,
) -> Vec<GivenTier> {
    let TierSource::Dirs(dirs) = &options.tiers else { return Vec::new() };
    let given = dirs.iter().map(|given| {
        let device = device_of(given);
        let fs = device.as_ref().map_or_else(|| fs.clone(), &on);
        let at = TableDir { fs, dir: given.dir.clone() };
        GivenTier { at, size: given.size, use_: TierUse::Open, device }
    });
    given.collect()
}

/// Refuses a directory with tables that are not the store's.
fn refuse_foreign(at: &TableDir, pool: u64) -> Result<()> {
    if owner::is_claimed(&*at.fs, &at.dir, Some(pool))? || at.present()?.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} holds tables, and no file OWNER says that they are this store's; name an empty directory in tiers, or write that file \
         anew, as docs/format/manifest.md shows",
        at.dir.display()
    );
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// Tells which tier of the store of `pool` each directory is, from the file in it (I-TIER-1); one that has none yet gets the next
/// number. `own` is the store's own directory: the last tier, or where it stands in the list.
///
/// # Errors
/// `InvalidArgument` where a directory is another store's, or two are the same tier; `Corruption` where that cannot be told.
pub(crate) fn numbered(
    own: &TableDir,
    given: Vec<GivenTier>,
    named: &NamedTiers,
    access: Access,
) -> Result<Vec<TierDir>> {
    let pool = named.pool;
    let mut dirs = Vec::new();
    let mut fresh = Vec::new();
    for GivenTier { at, size, use_, device } in given {
        if same_file(&at.dir, &own.dir) {
            let at = TableDir { dir: own.dir.clone(), ..at };
            dirs.push(TierDir { no: OWN, at, size, use_: TierUse::Open, device });
            continue;
        }
        let found = owner::claim_of(&*at.fs, &at.dir, Some(pool))?;
        let no = found.map_or(OWN, |DirClaim { tier, .. }| tier);
        let no = if planted::is(Bug::TierByPosition) { dirs.len() as u32 + 1 } else { no };
        if found.is_none() {
            if access == Access::Write {
                refuse_foreign(&at, pool)?;
            }
            fresh.push(dirs.len());
        } else if no == OWN {
            return Err(twice(&at.dir, &own.dir, OWN));
        }
        dirs.push(TierDir { no, at, size, use_, device });
    }
    if !dirs.iter().any(|dir| dir.no == OWN && same_file(&dir.at.dir, &own.dir)) {
        dirs.push(TierDir::own(own.clone()));
    }
    let given = dirs.iter().map(|dir| dir.no);
    let known = given.chain(named.numbers.iter().copied());
    let mut last = known.chain([named.highest]).max().unwrap_or(OWN);
    // A directory that is not there may be one in which files are missed; first of all one that the store knows.
    let known: BTreeSet<u32> = dirs.iter().map(|dir| dir.no).collect();
    let mut missed = named.numbers.iter().filter(|no| !known.contains(no));
    fresh.sort_by_key(|at| dirs[*at].use_ != TierUse::Leaving);
    for at in fresh {
        let TableDir { fs, dir } = &dirs[at].at;
        let is_there = fs.exists(dir)?;
        let missed = if is_there { None } else { missed.next() };
        dirs[at].no = match missed {
            Some(no) => *no,
            None => {
                last = last.checked_add(1).ok_or_else(no_number_left)?;
                last
            }
        };
    }
    for (at, dir) in dirs.iter().enumerate() {
        if let Some(other) = dirs[..at].iter().find(|other| other.no == dir.no) {
            return Err(twice(&other.at.dir, &dir.at.dir, dir.no));
        }
    }
    Ok(dirs)
}

/// No store numbers so many directories.
fn no_number_left() -> Error {
    let text = "the manifest names tier 4294967295, behind which there is no number for a new directory; leave that out of tiers, or restore a \
                copy of the store";
    Error::corruption("open", text)
}

fn twice(one: &Path, other: &Path, no: u32) -> Error {
    if same_file(one, other) {
        let text = format!("tiers has {} twice; name each directory once", one.display());
        return Error::new(ErrorKind::InvalidArgument, "open", text);
    }
    let text = format!(
        "{} and {} both are tier {no} of this store (the file {} in each says so); leave one out of tiers, and remove the file in it \
         if no table is there",
        one.display(),
        other.display(),
        owner::NAME
    );
    Error::new(ErrorKind::InvalidArgument, "open", text)
}
