//! The file `STORE`, which names the parts of a store. It is text, so that a user who moves a part can say so.

use std::path::{Component, Path, PathBuf};

use base::{Error, ErrorKind, Result};
use ssd::{Fs, Read};

use crate::tree::tiers::TierUse;

pub(crate) const IDENTITY: &str = "STORE";
/// Its name as long as it is being written.
pub(crate) const IDENTITY_STAGED: &str = "STORE.new";
const HEADER: &str = "strandline store 1";
/// Longer than any such file is: some paths and words.
const LEN_MAX: u64 = 64 << 10;

/// Refuses a place that the file could not name: its lines are text.
pub(super) fn check_name(place: &Path) -> Result<()> {
    if place.to_str().is_some_and(|name| !name.contains('\n')) {
        return Ok(());
    }
    let text = format!(
        "{place:?} cannot be written to {IDENTITY}: it has a line break, or is not UTF-8; name another place"
    );
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// Whether a place is named as one in the directory of the store.
pub(super) fn is_inside(place: &Path) -> bool {
    place.file_name().is_some()
        && place.components().all(|part| matches!(part, Component::Normal(_)))
}

/// What the store at `path` names, taken by `hold`, which keeps it from others. A store that has moved before it was held
/// is looked at again, whether or not there was still something to hold: what it has left tells nothing about it.
pub(super) fn hold_named<T>(
    fs: &dyn Fs,
    path: &Path,
    hold: impl Fn(&Identity) -> Result<T>,
) -> Result<Option<(Identity, T)>> {
    loop {
        let Some(named) = Identity::read(fs, path)? else { return Ok(None) };
        let held = hold(&named);
        match Identity::read(fs, path)? {
            Some(now) if now.memory == named.memory => return held.map(|held| Some((now, held))),
            _ => {}
        }
    }
}

/// Where a store has its records. Places are relative to the store or absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// In this pool.
    Pool(PathBuf),
    /// In DRAM, with a log in this directory.
    Wal(PathBuf),
}

impl Memory {
    /// Reads what [`Memory::line`] wrote.
    pub fn parse(line: &str) -> Option<Memory> {
        let pool = line.strip_prefix("pool ").map(|at| Memory::Pool(at.into()));
        pool.or_else(|| line.strip_prefix("wal ").map(|at| Memory::Wal(at.into())))
    }

    /// How files say it.
    pub fn line(&self) -> String {
        match self {
            Memory::Pool(pool) => format!("pool {}", pool.display()),
            Memory::Wal(dir) => format!("wal {}", dir.display()),
        }
    }
}

/// What the file says.
#[derive(Clone)]
pub(crate) struct Identity {
    pub memory: Memory,
    /// The directory of tables, if it has any.
    pub ssd: Option<PathBuf>,
    /// More of them, and where this one stands among them, fastest first.
    pub tiers: Vec<StoredTier>,
}

/// A tier, as the file names it: relative to the store or absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredTier {
    pub dir: PathBuf,
    /// Bytes that its files may take; 0: what the device has.
    pub size: u64,
    pub use_: TierUse,
}

impl StoredTier {
    fn parse(line: &str) -> Option<StoredTier> {
        let (use_, rest) = match line.split_once(' ')? {
            ("tier", rest) => (TierUse::Open, rest),
            ("leaves", rest) => (TierUse::Leaving, rest),
            _ => return None,
        };
        let (size, dir) = rest.split_once(' ')?;
        (!dir.is_empty()).then_some(StoredTier { dir: dir.into(), size: size.parse().ok()?, use_ })
    }

    fn line(&self) -> String {
        let word = if self.use_ == TierUse::Open { "tier" } else { "leaves" };
        format!("{word} {} {}", self.size, self.dir.display())
    }
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
        let identity = match &lines[1..] {
            [lines @ .., ""] => Identity::parse(lines),
            _ => None,
        };
        match identity {
            Some(identity) => Ok(Some(identity)),
            None => refused(
                ErrorKind::Corruption,
                "is damaged; write it anew: behind its first line `pool PATH` or `wal PATH`, then `ssd PATH` if there are tables, \
                 then `tier BYTES PATH` for each further directory of them",
            ),
        }
    }

    fn parse(lines: &[&str]) -> Option<Identity> {
        let (memory, lines) = lines.split_first()?;
        let memory = Memory::parse(memory)?;
        let Some((ssd, tiers)) = lines.split_first() else {
            return Some(Identity { memory, ssd: None, tiers: Vec::new() });
        };
        let ssd = Some(PathBuf::from(ssd.strip_prefix("ssd ")?));
        let tiers = tiers.iter().map(|line| StoredTier::parse(line)).collect::<Option<_>>()?;
        Some(Identity { memory, ssd, tiers })
    }

    /// Names the places of the store at `path`, durably and in one piece.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<()> {
        let mut text = format!("{HEADER}\n{}\n", self.memory.line());
        if let Some(ssd) = &self.ssd {
            text.push_str(&format!("ssd {}\n", ssd.display()));
        }
        self.tiers.iter().for_each(|tier| text.push_str(&format!("{}\n", tier.line())));
        let staged = path.join(IDENTITY_STAGED);
        ssd::durable_install(fs, &staged, &path.join(IDENTITY), |file| file.append(text.as_bytes()))
    }
}

/// The bytes of a file that is too short to matter; of a longer one, so many that it is none of ours.
pub(super) fn whole(file: &dyn Read) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.len().min(LEN_MAX) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
