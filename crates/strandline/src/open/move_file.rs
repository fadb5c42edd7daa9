//! The file `MOVE`, which says that a store is being moved from one memory to another, and what becomes of the one that
//! the store does not have. It is text.

use std::path::Path;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{FileLock, OpenMode, Region};
use pool::Pool;
use ssd::Fs;

use crate::open::destroy::{remove_if_there, remove_memory};
use crate::open::ground::{Ground, Named};
use crate::open::open_dram;
use crate::open::store_file::{Memory, is_inside, whole};
use crate::options::Options;
use crate::wal;

pub(crate) const MOVE: &str = "MOVE";
pub(crate) const MOVE_STAGED: &str = "MOVE.new";
const HEADER: &str = "strandline move 1";

/// A move that has begun.
pub(super) struct Move {
    pub from: Memory,
    pub to: Memory,
}

impl Move {
    fn read(names: &dyn Fs, path: &Path) -> Result<Option<Move>> {
        let file = path.join(MOVE);
        let bytes = match names.open(&file).and_then(|file| whole(&*file)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        let part = |line: &str, part| line.strip_prefix(part).and_then(Memory::parse);
        let lines: Vec<&str> = text.split('\n').collect();
        let parts = match lines[..] {
            [HEADER, from, to, ""] => part(from, "from ").zip(part(to, "to ")),
            _ => None,
        };
        let Some((from, to)) = parts else {
            return Err(unclear(&file, "is damaged"));
        };
        Ok(Some(Move { from, to }))
    }

    pub fn write(&self, names: &dyn Fs, path: &Path) -> Result<()> {
        let text = format!("{HEADER}\nfrom {}\nto {}\n", self.from.line(), self.to.line());
        let (staged, name) = (path.join(MOVE_STAGED), path.join(MOVE));
        ssd::durable_install(names, &staged, &name, |file| file.append(text.as_bytes()))
    }
}

fn unclear(file: &Path, what: &str) -> Error {
    let file = file.display();
    let text = format!(
        "{file}, which says that the store was being moved, {what}; remove it, and the pool or log that STORE does not name"
    );
    Error::corruption("open", text)
}

/// Finishes or undoes a move that was cut short, if one was. The store has the memory `named`, whose name is durable and
/// whose bytes are `region`, held. What cannot be removed now is told, and is removed by a later open: a store is not kept
/// from opening by what it does not have.
pub(super) fn finish(
    ground: &dyn Ground,
    path: &Path,
    named: &Memory,
    region: &Arc<Region>,
) -> Result<Option<String>> {
    let names = ground.names();
    let _in_no_ones_way = names.remove(&path.join(MOVE_STAGED));
    let Some(other) = other(&*names, path, named)? else { return Ok(None) };
    // While this one is not whole, the other may be all that there is; why it is not, the open tells.
    let Ok((pool, _)) = Pool::open(Arc::clone(region)) else { return Ok(None) };
    let removed = remove_moved(ground, path, &other, Some(pool.id()));
    Ok(removed.err().map(|error| {
        let other = other.line();
        format!("it has moved, and {other} stays until an open can remove it: {error}")
    }))
}

/// Removes what a move that was cut short has left, if one was, for a call after which nothing would tell of it. `id` is the
/// identifier of the store, if it can be read.
pub(super) fn remove_other(
    ground: &dyn Ground,
    path: &Path,
    named: &Memory,
    id: Option<u64>,
) -> Result<()> {
    let Some(other) = other(&*ground.names(), path, named)? else { return Ok(()) };
    remove_moved(ground, path, &other, id).map_err(|error| {
        let text = format!(
            "the store has moved, and {} is there still: {error}; if nothing of the store's is there, remove {}",
            other.line(),
            path.join(MOVE).display()
        );
        Error::new(error.kind(), "open", text)
    })
}

/// Of the two memories of a move that was cut short, the one that the store does not have.
fn other(names: &dyn Fs, path: &Path, named: &Memory) -> Result<Option<Memory>> {
    let Some(Move { from, to }) = Move::read(names, path)? else { return Ok(None) };
    match *named == to {
        true => Ok(Some(from)),
        false if *named == from => Ok(Some(to)),
        false => Err(unclear(&path.join(MOVE), "names other memory than STORE")),
    }
}

/// V5: removes the memory that the store does not have, if it is its own, and then the file that says so.
pub(super) fn remove_moved(
    ground: &dyn Ground,
    path: &Path,
    other: &Memory,
    id: Option<u64>,
) -> Result<()> {
    let names = ground.names();
    if let Some(held) = hold_own(ground, path, other, id)? {
        remove_memory(&*names, path, other)?;
        drop(held);
    }
    remove_if_there(&*names, &path.join(MOVE))?;
    names.sync_dir(path)
}

/// Keeps others from what is to be removed.
#[derive(Default)]
struct HeldRemains {
    _lock: Option<FileLock>,
    _region: Option<Arc<Region>>,
}

/// Holds memory that is to be removed, if it is the store's: anything may lie in its place by now.
fn hold_own(
    ground: &dyn Ground,
    path: &Path,
    memory: &Memory,
    id: Option<u64>,
) -> Result<Option<HeldRemains>> {
    let lock = |at: &Path| {
        let _lock = ground.lock(at, OpenMode::ReadWrite)?;
        Ok(Some(HeldRemains { _lock, _region: None }))
    };
    let pool = match memory {
        Memory::Wal(dir) if ground.names().exists(&path.join(dir))? => {
            let at = path.join(dir);
            return match is_inside(dir) {
                true => lock(&at.join(wal::LOCK)),
                false => hold_own_log(ground, &at, id),
            };
        }
        // Its name may have gone without lasting.
        Memory::Wal(_) => return Ok(Some(HeldRemains::default())),
        Memory::Pool(pool) => pool,
    };
    let at = path.join(pool);
    match ground.what_is(&at)? {
        Named::Nothing => return Ok(Some(HeldRemains::default())),
        Named::Directory | Named::Device => return Ok(None),
        Named::File => {}
    }
    let held = lock(&at)?;
    // Made by the move, which was killed before anything was in it.
    if ground.is_blank(&at)? {
        return Ok(held);
    }
    drop(held);
    let region = ground.open_pool(&at, OpenMode::ReadOnly)?;
    let is_own = match (Pool::open(Arc::clone(&region)), id) {
        (Ok((pool, _)), Some(id)) => pool.id() == id,
        (Err(error), _) if error.kind() == ErrorKind::NotFound => true,
        (Err(error), _) if error.kind() == ErrorKind::InvalidArgument => false,
        (_, None) if is_inside(pool) => true,
        (Err(error), _) => return Err(error),
        (Ok(_), None) => {
            let text = format!(
                "whose the pool {} is cannot be told, since the memory of the store cannot be read; remove it if it is this \
                 store's",
                at.display()
            );
            return Err(Error::corruption("open", text));
        }
    };
    Ok(is_own.then_some(HeldRemains { _lock: None, _region: Some(region) }))
}

/// The same of a log that is not in the directory of the store, where another store may have its own by now. One that cannot be
/// read stays.
fn hold_own_log(ground: &dyn Ground, dir: &Path, id: Option<u64>) -> Result<Option<HeldRemains>> {
    if !wal::is_in(&*ground.names(), dir) {
        let _lock = ground.lock(&dir.join(wal::LOCK), OpenMode::ReadWrite)?;
        return Ok(Some(HeldRemains { _lock, _region: None }));
    }
    let Ok(Some((region, _))) = open_dram::read_memory(ground, dir, &Options::default()) else {
        return Ok(None);
    };
    let is_own = match Pool::open(Arc::clone(&region)) {
        Ok((pool, _)) => Some(pool.id()) == id,
        // Made by the move, which was killed before anything was in it.
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    Ok(is_own.then_some(HeldRemains { _lock: None, _region: Some(region) }))
}
