//! What bench may empty: parts of a store that it made, or found empty. The file `BENCH` in the store's folder names them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that names them.
const MARKER: &str = "BENCH";
const HEAD: &str =
    "strandline bench made the store in this folder, and empties it when it runs here again";
/// What is in the folder of a store, or of what is left of one.
const PARTS: [&str; 5] = ["STORE", "STORE.new", "pool", "sst", "wal"];

/// The places of a store.
pub(crate) struct Places<'s> {
    pub folder: &'s Path,
    /// The pool, where it is not in the folder.
    pub pool: Option<&'s Path>,
    /// The folder of tables, where it is not in the folder.
    pub tables: Option<&'s Path>,
}

impl Places<'_> {
    /// Refuses places that hold something of a store that bench did not make.
    pub(crate) fn check(&self) -> Result<(), String> {
        let marker = self.folder.join(MARKER);
        let noted: Vec<String> = match std::fs::read_to_string(&marker) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(_) if !marker.exists() => Vec::new(),
            Err(error) => return Err(format!("reading {}: {error}", marker.display())),
        };
        if noted.first().is_some_and(|head| head != HEAD) {
            let shown = marker.display();
            return Err(format!("{shown} is not a file of bench; name another folder with --db"));
        }
        // The store that was there then, or what is left of it.
        let is_ours = match self.identity() {
            Some(identity) => noted.contains(&identity),
            None => !noted.is_empty(),
        };
        let held = PARTS.iter().any(|part| self.folder.join(part).exists());
        if held && !is_ours {
            return Err(refused(self.folder));
        }
        let is_noted = |word, path: &Path| noted.contains(&line(word, path));
        let pool = self.pool.filter(|path| holds_bytes(path) && !is_noted("pool", path));
        let tables = self.tables.filter(|path| holds_tables(path) && !is_noted("tables", path));
        pool.or(tables).map_or(Ok(()), |foreign| Err(refused(foreign)))
    }

    /// Notes that bench made the store that is there now.
    pub(crate) fn note(&self) -> Result<(), String> {
        let mut lines = vec![HEAD.to_owned()];
        lines.extend(self.identity());
        lines.extend(self.pool.map(|path| line("pool", path)));
        lines.extend(self.tables.map(|path| line("tables", path)));
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

fn line(word: &str, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    format!("{word} {}", path.display())
}

/// Whether a file or a device begins with anything but zeros, as a pool does.
fn holds_bytes(path: &Path) -> bool {
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

/// Whether it is a table, or the file that says whose the tables are.
pub(crate) fn is_of_tables(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "sst") || path.ends_with("OWNER")
}

fn refused(path: &Path) -> String {
    format!(
        "{} holds a store that bench did not make; name another place, keep the store with --use_existing_db, or empty it \
         with --overwrite_existing",
        path.display()
    )
}
