//! What bench may empty: parts of a store that it made, or found empty. The file `BENCH` in the store's folder names them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmem::{FileLock, OpenMode};

use crate::words::told;

/// The file that names them.
const MARKER: &str = "BENCH";
const HEAD: &str =
    "strandline bench made the store in this folder, and empties it when it runs here again";
/// What is in the folder of a store, or of what is left of one.
const PARTS: [&str; 5] = ["STORE", "STORE.new", "pool", "sst", "wal"];
/// The file in a folder of tables that says which pool they belong to.
const OWNER: &str = "OWNER";

/// What a store says of its own places.
struct Named {
    pool: Option<PathBuf>,
    log: Option<PathBuf>,
    tables: Option<PathBuf>,
}

/// The places of a store.
pub(crate) struct Places<'s> {
    pub folder: &'s Path,
    /// The pool, where it is not in the folder.
    pub pool: Option<&'s Path>,
    /// The folder of tables, where it is not in the folder.
    pub tables: Option<&'s Path>,
    /// The folder of the log, where it is not in the folder.
    pub log: Option<&'s Path>,
}

impl Places<'_> {
    /// Refuses places that hold something of a store that bench did not make.
    pub(crate) fn check(&self) -> Result<(), String> {
        let noted = self.noted()?;
        if noted.first().is_some_and(|head| head != HEAD) {
            let marker = self.folder.join(MARKER);
            let shown = marker.display();
            return Err(format!("{shown} is not a file of bench; name another folder with --db"));
        }
        // The store that was there then, or what is left of it.
        let is_ours = match self.identity() {
            Some(identity) => noted.contains(&identity),
            None => !noted.is_empty(),
        };
        let held = PARTS.iter().any(|part| holds(&self.folder.join(part)));
        if held && !is_ours {
            return Err(refused(self.folder));
        }
        let pool = self.pool.filter(|path| holds_bytes(path) && !noted.contains(&pool_line(path)));
        let tables =
            self.tables.filter(|path| holds_tables(path) && !noted.contains(&tables_line(path)));
        // A log is of bench if the store is that names it.
        let log = self.log.filter(|log| {
            let named = self.named().log;
            log_files(log).next().is_some() && named.is_none_or(|named| !is_same(&named, log))
        });
        pool.or(tables).or(log).map_or(Ok(()), |foreign| Err(refused(foreign)))
    }

    /// Refuses a folder of tables of a store elsewhere, which may be open. Its tables are nothing without its pool.
    pub(crate) fn check_owner(&self) -> Result<(), String> {
        let Some(tables) = self.tables.filter(|tables| holds_tables(tables)) else { return Ok(()) };
        let named = self.named();
        let pools = [Some(self.folder.join("pool")), self.pool.map(PathBuf::from), named.pool];
        let owner = owner_of(tables);
        let is_owner = |pool: &PathBuf| owner.is_some() && pool_id(pool) == owner;
        // A log does not say which pool its memory is.
        let is_of_log = named.log.is_some() && named.tables.as_deref() == Some(tables);
        if pools.iter().flatten().any(is_owner)
            || is_of_log
            || self.noted()?.contains(&tables_line(tables))
        {
            return Ok(());
        }
        Err(format!(
            "{} holds tables of a store in another folder; name another folder with --ssd",
            tables.display()
        ))
    }

    /// Whether bench made the store that is there.
    pub(crate) fn is_of_bench(&self) -> Result<bool, String> {
        let noted = self.noted()?;
        Ok(self.identity().is_some_and(|identity| noted.contains(&identity)))
    }

    /// The lines of the file `BENCH`; none where there is no such file.
    fn noted(&self) -> Result<Vec<String>, String> {
        let marker = self.folder.join(MARKER);
        match std::fs::read_to_string(&marker) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(_) if !marker.exists() => Ok(Vec::new()),
            Err(error) => Err(format!("reading {}: {error}", marker.display())),
        }
    }

    /// What the file `STORE` names.
    fn named(&self) -> Named {
        let text = std::fs::read_to_string(self.folder.join(PARTS[0])).unwrap_or_default();
        let path = |word: &str| {
            let path = text.lines().find_map(|line| line.strip_prefix(word))?;
            Some(self.folder.join(path))
        };
        Named { pool: path("pool "), log: path("wal "), tables: path("ssd ") }
    }

    /// The folders of tables that the file `STORE` names: the store's own one first, then its tiers.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(self.folder.join(PARTS[0])).unwrap_or_default();
        let tier = |line: &str| {
            let rest = line.strip_prefix("tier ").or_else(|| line.strip_prefix("leaves "))?;
            Some(self.folder.join(rest.split_once(' ')?.1))
        };
        self.named().tables.into_iter().chain(text.lines().filter_map(tier)).collect()
    }

    /// Locks the store that is there, as an open would, so that no process has it open while it is emptied.
    pub(crate) fn lock(&self) -> Result<Vec<FileLock>, String> {
        for part in ["sst", "wal"].map(|part| self.folder.join(part)) {
            if part.is_symlink() {
                let shown = part.display();
                return Err(format!(
                    "{shown} leads to another folder, which bench does not empty; remove that link, or name another folder \
                     with --db"
                ));
            }
        }
        let named = self.named();
        let log = self.log.map(PathBuf::from);
        let logs =
            [Some(self.folder.join("wal")), named.log, log].map(|log| Some(log?.join("LOCK")));
        let pools = [Some(self.folder.join("pool")), self.pool.map(PathBuf::from), named.pool];
        let mut locks = Vec::new();
        let mut locked = Vec::new();
        for file in pools.into_iter().chain(logs).flatten() {
            let Ok(of) = std::fs::metadata(&file) else { continue };
            // One file may have several names here, and is locked once.
            if of.is_file() && !locked.contains(&(of.dev(), of.ino())) {
                locked.push((of.dev(), of.ino()));
                locks.push(FileLock::acquire(&file, OpenMode::ReadWrite).map_err(told)?);
            }
        }
        Ok(locks)
    }

    /// Notes that what is made here from now on is of bench. A store that is there is not.
    pub(crate) fn begin(&self) -> Result<(), String> {
        match self.noted()?.is_empty() {
            true => self.write(&[]),
            false => Ok(()),
        }
    }

    /// Notes that bench made the store that is there now.
    pub(crate) fn note(&self) -> Result<(), String> {
        let of_this = [self.pool.map(pool_line), self.tables.map(tables_line)];
        // Pools and tables elsewhere that earlier runs made stay known: a run may name them again.
        let is_elsewhere = |line: &String| {
            let place = |line: &str| line.splitn(3, ' ').nth(2).map(str::to_owned);
            let is_place = line.starts_with("pool ") || line.starts_with("tables ");
            is_place && of_this.iter().flatten().all(|new| place(new) != place(line))
        };
        let earlier = self.noted()?.into_iter().filter(is_elsewhere);
        let lines =
            self.identity().into_iter().chain(earlier).chain(of_this.clone().into_iter().flatten());
        self.write(&lines.collect::<Vec<_>>())
    }

    fn write(&self, lines: &[String]) -> Result<(), String> {
        let lines = [&[HEAD.to_owned()], lines].concat();
        let marker = self.folder.join(MARKER);
        std::fs::write(&marker, lines.join("\n") + "\n")
            .map_err(|error| format!("{}: {error}; name a folder with --db", marker.display()))
    }

    /// Tells one store in the folder from another that is made there later.
    fn identity(&self) -> Option<String> {
        let of = std::fs::metadata(self.folder.join(PARTS[0])).ok()?;
        Some(format!("store {} {} {}.{:09}", of.dev(), of.ino(), of.mtime(), of.mtime_nsec()))
    }
}

/// Names a pool by its path and its identifier, since another may lie there later.
fn pool_line(path: &Path) -> String {
    line("pool", pool_id(path), path)
}

/// Names a folder of tables by its path and the pool that they belong to.
fn tables_line(folder: &Path) -> String {
    line("tables", owner_of(folder), folder)
}

/// The identifier in the superblock of a pool.
fn pool_id(path: &Path) -> Option<u64> {
    let mut head = [0; 24];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    head.last_chunk().map(|id| u64::from_le_bytes(*id))
}

/// The identifier of the pool that tables belong to.
pub(crate) fn owner_of(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join(OWNER)).ok()?;
    u64::from_str_radix(text.lines().find_map(|line| line.strip_prefix("pool "))?, 16).ok()
}

fn line(word: &str, id: Option<u64>, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    format!("{word} {:016x} {}", id.unwrap_or(0), path.display())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    whole(one) == whole(other)
}

/// The files of a log in a folder.
pub(crate) fn log_files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        path.extension().is_some_and(|end| end == "wal")
            || ["LOCK", "CHAIN"].iter().any(|name| path.ends_with(name))
    })
}

/// Whether there is a folder that is not empty, or a file that is not.
fn holds(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => std::fs::metadata(path).map_or(path.exists(), |of| of.len() > 0),
    }
}

/// Whether a file or a device begins with anything but zeros, as a pool does.
pub(crate) fn holds_bytes(path: &Path) -> bool {
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => {
            file.take(4096).read_to_end(&mut head).is_err() || head.iter().any(|byte| *byte != 0)
        }
        Err(_) => path.exists(),
    }
}

fn holds_tables(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| is_of_tables(&path))
}

/// Whether it is a table, by the name that stores give it, or the file that says whose the tables are.
pub(crate) fn is_of_tables(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_numbered = stem.len() >= 6 && stem.bytes().all(|byte| byte.is_ascii_digit());
    let is_table = is_numbered && path.extension().is_some_and(|end| end == "sst" || end == "blob");
    (is_table || path.ends_with(OWNER)) && !path.is_dir()
}

fn refused(path: &Path) -> String {
    format!(
        "{} holds a store that bench did not make; name another place, keep the store with --use_existing_db, or empty it \
         with --overwrite_existing",
        path.display()
    )
}
