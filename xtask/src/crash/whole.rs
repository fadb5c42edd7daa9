//! Operations of the whole store: keyspaces made and dropped, files taken in, checkpoints; and what lies beside it.

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Error, ErrorKind, Result, Seq};
use pmem::Region;
use sim::beside::Kind;
use sim::check::Fold;
use sim::{Beside, Keys, Progress, Write as Change, hash};
use ssd::{Disk, Fs, Memory};
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Clock, Db, Hooks, IngestOptions, Keyspace, KeyspaceOptions, MergeOperator, Options, steps,
};

use super::sites::Sites;
use super::store::Store;
use super::system::{NAMES, SPARE, refused, show};

/// The directory of what lies beside the store.
pub const BESIDE: &str = "/beside";
/// The pool of a checkpoint that is opened; room for a manifest and some zones.
const COPY_LEN: u64 = 512 << 10;
/// How long values live where they expire: the clock stands still, so only those expire that are written so.
const TTL: Duration = Duration::from_secs(3600);
/// Times that a keyspace is made anew in one open store.
const MAKES_MAX: usize = 12;

/// The keyspaces of an open store by number. Those that are dropped stay, for operations that still borrow them.
pub struct Spaces {
    opened: [OnceCell<Keyspace>; NAMES.len() + MAKES_MAX],
    now: [Cell<Option<usize>>; NAMES.len()],
    /// Where their files go, if they say so.
    sites: Option<Sites>,
}

impl Spaces {
    /// None so far.
    pub fn new() -> Self {
        Self { opened: Default::default(), now: Default::default(), sites: None }
    }

    /// The keyspaces of `db`, which makes those that are always there.
    pub fn of(db: &Db, expiring: Option<usize>, sites: Option<Sites>) -> Result<Self> {
        let spaces = Self { sites, ..Self::new() };
        for (number, name) in NAMES.into_iter().enumerate() {
            match db.keyspace(name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Err(_) if number == SPARE => {}
                Err(_) => {
                    let options = spaces.made(number);
                    let options = match expiring {
                        Some(expiring) if expiring == number => options.ttl(TTL),
                        _ => options,
                    };
                    spaces.add(number, db.create_keyspace_with(name, options)?);
                }
                Ok(space) => spaces.add(number, space),
            }
        }
        if let Some(sites) = &spaces.sites {
            spaces.each().try_for_each(|(number, space)| sites.look_at(number, space))?;
        }
        Ok(spaces)
    }

    /// The options that a keyspace is made with.
    fn made(&self, number: usize) -> KeyspaceOptions {
        self.sites.map_or_else(KeyspaceOptions::new, |sites| sites.options(number))
    }

    pub fn get(&self, number: usize) -> Option<&Keyspace> {
        self.opened[self.now[number].get()?].get()
    }

    /// Those that are there, with their numbers.
    pub fn each(&self) -> impl Iterator<Item = (usize, &Keyspace)> {
        (0..NAMES.len()).filter_map(|number| Some((number, self.get(number)?)))
    }

    fn free(&self) -> Option<usize> {
        self.opened.iter().position(|cell| cell.get().is_none())
    }

    fn add(&self, number: usize, space: Keyspace) {
        let at = self.free().expect("asked before");
        self.opened[at].get_or_init(|| space);
        self.now[number].set(Some(at));
    }

    fn forget(&self, number: usize) {
        self.now[number].set(None);
    }
}

/// A file to be taken in.
pub struct Incoming {
    pub writes: Vec<Change>,
    pub source: u32,
    pub moves: bool,
    pub made: bool,
}

/// Values are what was put, followed by what was merged.
struct Appending;

impl MergeOperator for Appending {
    fn merge(
        &self,
        _: &str,
        _: &[u8],
        before: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        Some([before.unwrap_or_default(), &operands.concat()].concat())
    }

    fn merge_operands(&self, _: &str, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

/// A clock that stands still.
struct Standing(Duration);

impl Clock for Standing {
    fn now(&self) -> Duration {
        self.0
    }
}

pub fn hooks(time: Duration) -> Hooks {
    Hooks::default().merge_operator(Arc::new(Appending)).clock(Arc::new(Standing(time)))
}

/// Makes or drops the keyspace that comes and goes.
pub fn keyspace(store: &Store, db: &Db, change: &Change) -> Result<Progress> {
    // Dropping waits for commits that are on their way, and this thread makes them. What is made is told from commits
    // by its place among them.
    if store.in_flight.get() > 0 {
        return Ok(Progress::Blocked);
    }
    let name = NAMES[SPARE];
    let done = match change {
        Change::Make { .. } if store.spaces.free().is_none() => return Ok(Progress::Refused),
        Change::Make { .. } => {
            let made = db.create_keyspace_with(name, store.spaces.made(SPARE));
            made.map(|space| {
                store.spaces.add(SPARE, space);
                store.probe.borrow_mut().spaces_made += 1;
            })
        }
        _ => db.drop_keyspace(name).map(|()| {
            store.spaces.forget(SPARE);
            store.probe.borrow_mut().spaces_dropped += 1;
        }),
    };
    match done {
        Ok(()) => Ok(Progress::At(0)),
        Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound) => {
            Ok(Progress::Refused)
        }
        Err(error) if refused(&error) => Ok(Progress::Refused),
        Err(error) => Err(error),
    }
}

/// One that is there may be what a killed process left, whose name is not durable.
fn make_dir(fs: &dyn Fs) -> Result<()> {
    if !fs.exists(BESIDE.as_ref())? {
        fs.create_dir_all(BESIDE.as_ref())?;
    }
    fs.sync_dir("/".as_ref())
}

fn source(number: u32) -> PathBuf {
    Path::new(BESIDE).join(format!("file-{number}"))
}

fn copy(number: u32) -> PathBuf {
    Path::new(BESIDE).join(format!("copy-{number}"))
}

/// Tells the bytes of a file from others.
fn fold_of(bytes: &[u8]) -> Fold {
    Fold { sum: hash::bytes(0, bytes), count: bytes.len() as u64 }
}

/// Makes the file, and takes it in with the next step.
pub fn ingest(store: &Store, db: &Db, incoming: &mut Incoming) -> Result<Progress> {
    let Incoming { writes, source: number, moves, made } = incoming;
    let path = source(*number);
    if !*made {
        let bytes = external(writes)?;
        make_dir(&*store.fs)?;
        let mut file = store.fs.create(&path)?;
        file.append(&bytes)?;
        file.sync()?;
        store.fs.sync_dir(BESIDE.as_ref())?;
        *made = true;
        return Ok(Progress::Made(fold_of(&bytes)));
    }
    // It waits for commits that are on their way, and this thread makes them.
    if store.in_flight.get() > 0 {
        return Ok(Progress::Blocked);
    }
    let keyspace = writes.iter().find_map(|write| match write {
        Change::Put { keyspace, .. }
        | Change::Delete { keyspace, .. }
        | Change::DeleteRange { keyspace, .. } => Some(*keyspace),
        // A file has neither operands nor keyspaces.
        Change::Merge { .. } | Change::Make { .. } | Change::Drop { .. } => None,
    });
    let Some(space) = store.spaces.get(usize::from(keyspace.unwrap_or(0))) else {
        return Ok(Progress::Refused);
    };
    match db.ingest(space, &[path], IngestOptions::default().move_files(*moves)) {
        Ok(seq) => {
            store.probe.borrow_mut().ingested += 1;
            Ok(Progress::At(seq.get()))
        }
        Err(error) if refused(&error) => Ok(Progress::Refused),
        Err(error) => Err(error),
    }
}

pub fn external(writes: &[Change]) -> Result<Vec<u8>> {
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), options);
    for write in writes {
        match write {
            Change::Put { key, value, .. } => {
                writer.add(key, Seq::ZERO, EntryKind::Value, &value.bytes())?;
            }
            Change::Delete { key, .. } => writer.add(key, Seq::ZERO, EntryKind::Delete, &[])?,
            Change::DeleteRange { from, to, .. } if from < to => {
                writer.add_range_delete(from, to, Seq::ZERO)?;
            }
            _ => {}
        }
    }
    Ok(writer.finish()?.0)
}

/// Makes a checkpoint; commits may be in flight.
pub fn checkpoint(store: &Store, db: &Db, number: u32) -> Result<Progress> {
    make_dir(&*store.fs)?;
    match db.checkpoint(copy(number)) {
        Ok(seq) => {
            store.probe.borrow_mut().checkpoints += 1;
            Ok(Progress::At(seq.get()))
        }
        Err(error) if error.kind() == ErrorKind::Exists => Ok(Progress::Refused),
        Err(error) => Err(error),
    }
}

/// What lies beside the store on this disk.
pub fn beside(disk: &Disk, keys: Keys, options: &Options) -> Result<Vec<Beside>> {
    let fs: Arc<dyn Fs> = Arc::new(Memory::new(disk.clone()));
    let mut found = Vec::new();
    if !fs.exists(BESIDE.as_ref())? {
        return Ok(found);
    }
    for name in fs.list(BESIDE.as_ref())? {
        let path = Path::new(BESIDE).join(&name);
        let number = |text: &str| text.parse::<u32>().ok();
        let is = if let Some(id) = name.strip_prefix("file-").and_then(number) {
            let file = fs.open(&path)?;
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes)?;
            Some(Beside { kind: Kind::Source, id, shows: fold_of(&bytes) })
        } else if let Some(id) = name.strip_prefix("copy-").and_then(number) {
            Some(Beside { kind: Kind::Copy, id, shows: open_copy(&fs, &path, keys, options)? })
        } else {
            let id = name.strip_prefix("copy-").and_then(|name| name.strip_suffix(".staging"));
            match (id.and_then(number), open_copy(&fs, &path, keys, options)) {
                (Some(id), Ok(shows)) => Some(Beside { kind: Kind::Staged, id, shows }),
                // It need not be whole, as long as that is said.
                (Some(_), Err(error)) if error.kind() != ErrorKind::Internal => None,
                (Some(_), Err(error)) => return Err(error),
                (None, _) => return Err(lies_about(&path)),
            }
        };
        found.extend(is);
    }
    Ok(found)
}

/// Opens a checkpoint as a store of its own, and tells what it shows.
pub fn open_copy(fs: &Arc<dyn Fs>, path: &Path, keys: Keys, options: &Options) -> Result<Fold> {
    let dir = path.join("sst");
    if !fs.exists(&dir.join("MANIFEST"))? {
        let text = format!("{} has no manifest", path.display());
        return Err(Error::new(ErrorKind::NotFound, "open checkpoint", text));
    }
    let region = Arc::new(Region::heap(COPY_LEN, None)?);
    let db =
        steps::open(region, Some((Arc::clone(fs), &dir)), options.clone(), hooks(Duration::ZERO))?;
    let spaces = Spaces::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        match db.keyspace(name) {
            Ok(space) => spaces.add(number, space),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut fold = Fold::default();
    show(&spaces, keys, &mut |keyspace, key, value| {
        fold.sum = fold.sum.wrapping_add(hash::entry(keyspace, key, value));
        fold.count += 1;
    })?;
    Ok(fold)
}

#[cold]
fn lies_about(path: &Path) -> Error {
    let text = format!("{} is none of what was put there", path.display());
    Error::new(ErrorKind::Internal, "beside", text)
}
