//! The file `STORE`, which names the parts of a store. It is text, so that a user who moves a part can say so.

use std::path::{Path, PathBuf};

use base::{Error, ErrorKind, Result};
use ssd::{Fs, Read};

pub(crate) const IDENTITY: &str = "STORE";
/// Its name as long as it is being written.
pub(crate) const IDENTITY_STAGED: &str = "STORE.new";
const HEADER: &str = "strandline store 1";
/// Longer than any such file is: two paths and some words.
const LEN_MAX: u64 = 64 << 10;

/// Where a store has its records. Places are relative to the store or absolute.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    /// In this pool.
    Pool(PathBuf),
    /// In DRAM, with a log in this directory.
    Wal(PathBuf),
}

impl Memory {
    fn parse(line: &str) -> Option<Memory> {
        let pool = line.strip_prefix("pool ").map(|at| Memory::Pool(at.into()));
        pool.or_else(|| line.strip_prefix("wal ").map(|at| Memory::Wal(at.into())))
    }
}

/// What the file says.
pub(crate) struct Identity {
    pub memory: Memory,
    /// The directory of tables, if it has any.
    pub ssd: Option<PathBuf>,
}

impl Identity {
    /// What the file of the store at `path` says, if there is one. Nothing in it is passed over: a line that is not
    /// understood may have been one that counts.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Option<Identity>> {
        let file = path.join(IDENTITY);
        let bytes = match fs.open(&file).and_then(|file| whole(&*file)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let refused =
            |kind, what: &str| Err(Error::new(kind, "open", format!("{} {what}", file.display())));
        let text = match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => text,
            _ => {
                let what = "is damaged: it is no text; write it anew";
                return refused(ErrorKind::Corruption, what);
            }
        };
        if !text.starts_with(&format!("{HEADER}\n")) {
            let what = format!("does not begin with `{HEADER}`; use the release that wrote it");
            return refused(ErrorKind::NotSupported, &what);
        }
        // The last line is ended, too, or the file was cut short.
        let lines: Vec<&str> = text.split('\n').collect();
        let (memory, ssd) = match lines[1..] {
            [memory, ""] => (Memory::parse(memory), None),
            [memory, ssd, ""] => (Memory::parse(memory), ssd.strip_prefix("ssd ")),
            _ => (None, None),
        };
        match memory {
            Some(memory) if ssd.is_some() == (lines.len() > 3) => {
                Ok(Some(Identity { memory, ssd: ssd.map(PathBuf::from) }))
            }
            _ => refused(
                ErrorKind::Corruption,
                "is damaged; write it anew: behind its first line `pool PATH` or `wal PATH`, then `ssd PATH` if there are tables",
            ),
        }
    }

    /// Names the places of the store at `path`, durably and in one piece.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<()> {
        let mut text = match &self.memory {
            Memory::Pool(pool) => format!("{HEADER}\npool {}\n", pool.display()),
            Memory::Wal(dir) => format!("{HEADER}\nwal {}\n", dir.display()),
        };
        if let Some(ssd) = &self.ssd {
            text.push_str(&format!("ssd {}\n", ssd.display()));
        }
        let staged = path.join(IDENTITY_STAGED);
        ssd::durable_install(fs, &staged, &path.join(IDENTITY), |file| file.append(text.as_bytes()))
    }
}

/// The bytes of a file that is too short to matter; of a longer one, so many that it is none of ours.
fn whole(file: &dyn Read) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.len().min(LEN_MAX) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
