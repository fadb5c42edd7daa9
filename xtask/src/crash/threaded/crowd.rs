//! The threads that use a store: writers, readers, and one for what concerns the whole store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use base::planted;
use base::{Error, ErrorKind, Result};
use sim::check::{Fold, Rule, Violation};
use sim::diary::{Commit, Copy, During, Edit, Notes, Read, Walk};
use sim::{Rng, SimPm, Write, hash};
use ssd::Fs;
use strandline::{Batch, Db, IngestOptions, Keyspace, ReadOptions, steps};

use super::shape::{Drawer, Shape, Work};
use crate::crash::system::{NAMES, SPARE, refused};
use crate::crash::whole::{BESIDE, external};

/// An open store, and the memory and the disk that it is on.
#[derive(Clone, Copy)]
pub struct StoreParts<'a> {
    pub db: &'a Db,
    pub pm: &'a SimPm,
    pub fs: &'a Arc<dyn Fs>,
}

/// An open store and what its users share.
pub struct Crowd<'a> {
    pub db: &'a Db,
    pub pm: &'a SimPm,
    pub fs: &'a Arc<dyn Fs>,
    pub shape: &'a Shape,
    pub seed: u64,
    /// Where the identifiers of this crowd begin.
    pub first_id: u32,
    always: Vec<Keyspace>,
    /// The keyspace that comes and goes.
    spare: Mutex<Option<Keyspace>>,
    /// Writers are done.
    over: AtomicBool,
}

/// Identifiers that each thread has for itself.
const IDS_PER_THREAD: u32 = 1 << 20;
/// Reads of a reader at most.
const READS_MAX: usize = 400;

/// What went wrong with a call.
fn broken(what: &str, error: &Error) -> Violation {
    Violation::new(Rule::N8, format!("{what}: {error}"))
}

impl<'a> Crowd<'a> {
    pub fn new(parts: StoreParts<'a>, shape: &'a Shape, seed: u64, first_id: u32) -> Result<Self> {
        let StoreParts { db, pm, fs } = parts;
        let always = NAMES[..SPARE].iter().map(|name| db.keyspace(name));
        let always = always.collect::<Result<Vec<_>>>()?;
        let spare = Mutex::new(db.keyspace(NAMES[SPARE]).ok());
        let over = AtomicBool::new(false);
        Ok(Self { db, pm, fs, shape, seed, first_id, always, spare, over })
    }

    /// Runs all threads to their end.
    pub fn run(&self) -> std::result::Result<Vec<Notes>, Violation> {
        let Shape { writers, readers, .. } = *self.shape;
        std::thread::scope(|scope| {
            let writing =
                (0..writers).map(|n| start(scope, format!("writer{n}"), move || self.write(n)));
            let writing: Vec<_> = writing.collect();
            let reading = (0..readers)
                .map(|n| start(scope, format!("reader{n}"), move || self.read(writers + 1 + n)));
            let mut others: Vec<_> = reading.collect();
            others.push(start(scope, "whole".into(), || self.work()));
            let mut notes: Vec<Done> = writing.into_iter().map(join).collect();
            self.over.store(true, Relaxed);
            notes.extend(others.into_iter().map(join));
            notes.into_iter().collect()
        })
    }

    fn drawer(&self, thread: u32) -> Drawer<'a> {
        Drawer {
            shape: self.shape,
            rng: Rng::fork(self.seed, 0x10 + u64::from(thread)),
            next_id: self.first_id + thread * IDS_PER_THREAD,
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<Keyspace>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keyspace(&self, number: u8) -> Option<Keyspace> {
        match usize::from(number) {
            SPARE => self.spare().clone(),
            number => Some(self.always[number].clone()),
        }
    }

    /// A writer: commits, one after the other.
    fn write(&self, thread: u32) -> Done {
        let mut notes = Notes::default();
        let mut drawer = self.drawer(thread);
        for _ in 0..self.shape.ops {
            let writes = drawer.commit();
            let Some(batch) = self.batch(&writes) else { continue };
            let (synced, options) = drawer.durability();
            let begun = self.pm.mark();
            match steps::write(self.db, &batch, &options) {
                Ok(number) => {
                    let during = During { begun, done: self.pm.mark() };
                    let number = number.get();
                    notes.commits.push(Commit { writes, number, during, synced });
                }
                Err(error) if refused(&error) => notes.refused += 1,
                Err(error) if self.was_dropped(&error, &writes) => {}
                Err(error) => return Err(broken("a commit", &error)),
            }
        }
        Ok(notes)
    }

    fn batch(&self, writes: &[Write]) -> Option<Batch> {
        let mut batch = Batch::new();
        for write in writes {
            let space = self.keyspace(write.keyspace())?;
            match write {
                Write::Put { key, value, .. } => batch.put(&space, key, value.bytes()),
                Write::Delete { key, .. } => batch.delete(&space, key),
                Write::Merge { key, operand, .. } => batch.merge(&space, key, operand.bytes()),
                Write::DeleteRange { from, to, .. } => batch.delete_range(&space, from, to),
                Write::Make { .. } | Write::Drop { .. } => return None,
            }
        }
        Some(batch)
    }

    /// Whether a commit was turned away since its keyspace went meanwhile.
    fn was_dropped(&self, error: &Error, writes: &[Write]) -> bool {
        let spare = |write: &Write| usize::from(write.keyspace()) == SPARE;
        error.kind() == ErrorKind::Closed && writes.iter().any(spare) && self.db.sync().is_ok()
    }

    /// A reader: keys, and walks as of one moment.
    fn read(&self, thread: u32) -> Done {
        let mut notes = Notes::default();
        let mut drawer = self.drawer(thread);
        let mut reads = 0;
        while !self.over.load(Relaxed) && reads < READS_MAX {
            reads += 1;
            if drawer.rng.one_in(12) {
                notes.walks.push(self.walk().map_err(|error| broken("a walk", &error))?);
                continue;
            }
            let keyspace = drawer.rng.index(SPARE) as u8;
            let key = drawer.key();
            let begun = self.pm.mark();
            let value = self.always[usize::from(keyspace)].get(&key);
            let value = value.map_err(|error| broken("a read", &error))?;
            let during = During { begun, done: self.pm.mark() };
            notes.reads.push(Read { keyspace, key, value, during });
            if drawer.rng.one_in(4) {
                std::thread::yield_now();
            }
        }
        Ok(notes)
    }

    fn walk(&self) -> Result<Walk> {
        let begun = self.pm.mark();
        let snapshot = self.db.snapshot();
        let during = During { begun, done: self.pm.mark() };
        let mut folds = Vec::new();
        for (number, space) in self.always.iter().enumerate() {
            let options = ReadOptions::at(&snapshot);
            let mut iter = space.cursor(&options)?;
            iter.seek_to_first()?;
            let mut fold = Fold::default();
            while let Some(key) = iter.key() {
                let key = key.to_vec();
                if let Some(value) = iter.value()? {
                    fold.sum = fold.sum.wrapping_add(hash::entry(number as u8, &key, value));
                    fold.count += 1;
                }
                iter.next()?;
            }
            folds.push((number as u8, fold));
        }
        Ok(Walk { folds, during })
    }

    /// What concerns the whole store, one thing after the other.
    fn work(&self) -> Done {
        let mut notes = Notes::default();
        let mut drawer = self.drawer(self.shape.writers);
        for _ in 0..self.shape.whole {
            if self.shape.works.is_empty() || self.over.load(Relaxed) {
                break;
            }
            let work = self.shape.works[drawer.rng.index(self.shape.works.len())];
            match self.one(work, &mut drawer, &mut notes) {
                Ok(()) => {}
                // That some of each are done the floors see to.
                Err(error) if refused(&error) || error.kind() == ErrorKind::Busy => {}
                Err(error) => return Err(broken(&format!("{work:?}"), &error)),
            }
        }
        Ok(notes)
    }

    fn one(&self, work: Work, drawer: &mut Drawer<'_>, notes: &mut Notes) -> Result<()> {
        let space = &self.always[drawer.rng.index(SPARE)];
        match work {
            Work::Flush => self.db.flush(),
            Work::Compact => self.db.compact(),
            Work::CompactRange => {
                let (from, to) = drawer.range();
                self.db.compact_range(space, Some(&from), Some(&to))
            }
            Work::Split => steps::split(space, &drawer.key()).map(|_| ()),
            Work::Join => steps::join(space, &drawer.key()).map(|_| ()),
            Work::Sync => {
                let begun = self.pm.mark();
                self.db.sync_wal()?;
                notes.syncs.push(During { begun, done: self.pm.mark() });
                Ok(())
            }
            Work::Keyspace => self.make_or_drop(notes),
            Work::Ingest => self.ingest(drawer, notes),
            Work::Checkpoint => {
                make_dir(&**self.fs)?;
                let id = drawer.id();
                let begun = self.pm.mark();
                let number = self.db.checkpoint(copy(id))?;
                let during = During { begun, done: self.pm.mark() };
                notes.copies.push(Copy { id, number: number.get(), during });
                Ok(())
            }
        }
    }

    fn make_or_drop(&self, notes: &mut Notes) -> Result<()> {
        let keyspace = SPARE as u8;
        let begun = self.pm.mark();
        let there = self.spare().is_some();
        let (write, made) = match there {
            true => {
                self.db.drop_keyspace(NAMES[SPARE])?;
                (Write::Drop { keyspace }, None)
            }
            false => {
                let made = self.db.create_keyspace(NAMES[SPARE])?;
                (Write::Make { keyspace }, Some(made))
            }
        };
        // Commits to what was dropped are not above this, those to what was made will be.
        let number = steps::visible(self.db.default_keyspace());
        let during = During { begun, done: self.pm.mark() };
        *self.spare() = made;
        notes.edits.push(Edit {
            writes: vec![write],
            number: number.get(),
            numbered: false,
            during,
        });
        Ok(())
    }

    fn ingest(&self, drawer: &mut Drawer<'_>, notes: &mut Notes) -> Result<()> {
        let keyspace = drawer.rng.index(SPARE) as u8;
        let writes = drawer.file(keyspace);
        let path = source(drawer.id());
        make_dir(&**self.fs)?;
        let mut file = self.fs.create(&path)?;
        file.append(&external(&writes)?)?;
        file.sync()?;
        self.fs.sync_dir(BESIDE.as_ref())?;
        let options = IngestOptions::default().move_files(drawer.rng.one_in(3));
        let begun = self.pm.mark();
        let number = self.db.ingest(&self.always[usize::from(keyspace)], &[path], options)?;
        let during = During { begun, done: self.pm.mark() };
        notes.edits.push(Edit { writes, number: number.get(), numbered: true, during });
        Ok(())
    }
}

type Done = std::result::Result<Notes, Violation>;

type Started<'s> = std::io::Result<ScopedJoinHandle<'s, Done>>;

/// Starts a thread, on which is planted what is on this one.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
    name: String,
    work: impl FnOnce() -> Done + Send + 's,
) -> Started<'s> {
    let heritage = planted::heritage();
    std::thread::Builder::new().name(name).spawn_scoped(scope, move || {
        heritage.accept();
        work()
    })
}

fn join(started: Started<'_>) -> Done {
    let failed = |what: String| Violation::new(Rule::N8, what);
    let thread = started.map_err(|error| failed(format!("no thread: {error}")))?;
    let name = thread.thread().name().unwrap_or_default().to_owned();
    thread.join().unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Err(failed(format!("{name} panicked: {text}")))
    })
}

fn make_dir(fs: &dyn Fs) -> Result<()> {
    if !fs.exists(BESIDE.as_ref())? {
        fs.create_dir_all(BESIDE.as_ref())?;
        fs.sync_dir("/".as_ref())?;
    }
    Ok(())
}

pub fn copy(number: u32) -> PathBuf {
    Path::new(BESIDE).join(format!("copy-{number}"))
}

fn source(number: u32) -> PathBuf {
    Path::new(BESIDE).join(format!("file-{number}"))
}
