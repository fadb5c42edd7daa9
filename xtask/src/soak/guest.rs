//! A guest: a keyspace that comes, is written in every way there is, compared with a model, and goes again, while the
//! lanes write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::Seq;

use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Batch, Cursor, Db, ErrorKind, IngestOptions, Keyspace, ReadOptions, Result, Snapshot,
};
use testkit::{Rng, stamp, stamped};

use super::hooks::{ON_PURPOSE, number};
use super::told::Told;

/// How names of guests begin.
pub const PREFIX: &str = "guest-";
/// Whose values they are.
const WRITER: u64 = 0x6775_6573_7421;
/// Keys of a guest; of odd ones the values are numbers that operands add to.
const KEYS: u64 = 300;
/// Steps in the life of a guest at most.
const STEPS: u64 = 400;
/// How often a read is tried whose merge operator panics.
const TRIES: usize = 50;

/// What a guest should hold.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A guest and what it should hold, now and as of snapshots.
pub struct Guest<'g> {
    db: &'g Db,
    space: Keyspace,
    /// Where files to be taken in are made; none where the store has no levels.
    files: Option<PathBuf>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    rng: Rng,
    version: u64,
    told: &'g Told,
}

/// Why the life of a guest ended early.
pub enum End {
    /// There was no space for it, or the device refused a call.
    Refused,
    /// A rule was broken.
    Violation(String),
}

impl From<strandline::Error> for End {
    fn from(error: strandline::Error) -> End {
        match error.kind() {
            ErrorKind::NoSpace | ErrorKind::Io => End::Refused,
            _ => End::Violation(error.to_string()),
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

/// Calls `read` until no application code panics in it.
fn patiently<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match read() {
            Err(error) if error.to_string().contains(ON_PURPOSE) => {}
            other => return other,
        }
    }
    read()
}

/// Everything in `space` at `options`, forward; an error of the merge operator begins it anew.
pub fn contents(space: &Keyspace, options: &ReadOptions<'_>) -> Result<Model> {
    patiently(|| {
        let mut all = Model::new();
        let mut iter = space.cursor(options)?;
        iter.seek_to_first()?;
        while let (Some(key), Some(value)) = (iter.key(), iter.value()?) {
            all.insert(key.to_vec(), value.to_vec());
            iter.next()?;
        }
        Ok(all)
    })
}

/// The same backward.
fn backward(space: &Keyspace, options: &ReadOptions<'_>) -> Result<Model> {
    patiently(|| {
        let mut all = Model::new();
        let mut iter = space.cursor(options)?;
        iter.seek_to_last()?;
        while let (Some(key), Some(value)) = (iter.key(), iter.value()?) {
            all.insert(key.to_vec(), value.to_vec());
            iter.prev()?;
        }
        Ok(all)
    })
}

/// Whether every entry of a guest that a kill left is one that guests write.
pub fn is_plausible(space: &Keyspace) -> std::result::Result<(), String> {
    let all = contents(space, &ReadOptions::default()).map_err(|error| error.to_string())?;
    let wrong = all.iter().find(|(key, value)| {
        let no = std::str::from_utf8(key).ok().and_then(|key| key.parse::<u64>().ok());
        let right = match no {
            Some(no) if no % 2 == 1 => value.len() == 8,
            Some(no) => stamped(value).is_some_and(|(writer, key, version)| {
                writer == WRITER && key == no && stamp(writer, key, version, value.len()) == **value
            }),
            None => false,
        };
        !right
    });
    wrong.map_or(Ok(()), |(key, value)| {
        Err(format!("{} holds {} bytes that no guest wrote", key.escape_ascii(), value.len()))
    })
}

impl<'g> Guest<'g> {
    /// A guest called `name`, which is not there yet.
    pub fn new(
        db: &'g Db,
        name: &str,
        files: Option<&Path>,
        seed: u64,
        told: &'g Told,
    ) -> Result<Guest<'g>> {
        let space = db.create_keyspace(name)?;
        let (model, snapshots, rng) = (Model::new(), Vec::new(), Rng::new(seed));
        let files = files.map(|dir| dir.join(format!("{name}.sst")));
        Ok(Guest { db, space, files, model, snapshots, rng, version: seed << 20, told })
    }

    /// Lives, and is dropped while iterators and snapshots of it are open.
    pub fn live(mut self) -> std::result::Result<(), End> {
        let steps = self.rng.below(STEPS);
        let lived = (0..steps).try_for_each(|_| self.step());
        // A write that was refused may be there or not: the model ends here, the drop comes all the same.
        let iter = if lived.is_ok() { self.hold()? } else { None };
        self.db.drop_keyspace(self.space.name())?;
        self.told.dropped();
        if let Some(mut iter) = iter {
            self.read_on(&mut iter)?;
        }
        lived
    }

    fn step(&mut self) -> std::result::Result<(), End> {
        match self.rng.weighted(&[60, 20, 30, 6, 4, 30, 4, 2, 2, 4, 4]) {
            0 => self.put()?,
            1 => {
                let key = key(self.rng.below(KEYS));
                self.space.delete(&key)?;
                self.model.remove(&key);
            }
            2 => {
                let (key, add) = (key(self.rng.below(KEYS / 2) * 2 + 1), self.rng.below(100));
                self.space.merge(&key, add.to_le_bytes())?;
                let sum = self.model.get(&key).map_or(0, |value| number(value));
                self.model.insert(key, sum.wrapping_add(add).to_le_bytes().to_vec());
            }
            3 => {
                let (begin, end) = self.range();
                self.space.delete_range(&begin, &end)?;
                self.told.range_deleted();
                self.model.retain(|key, _| *key < begin || *key >= end);
            }
            4 => self.ingest()?,
            5 => self.get()?,
            6 => self.scan()?,
            7 => self.db.flush()?,
            8 => {
                let (begin, end) = self.range();
                self.db.compact_range(&self.space, Some(&begin), Some(&end)).or_else(on_purpose)?;
            }
            9 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.db.snapshot(), self.model.clone()));
            }
            _ => self.look_back()?,
        }
        Ok(())
    }

    fn put(&mut self) -> std::result::Result<(), End> {
        let mut batch = Batch::new();
        let mut puts = Vec::new();
        for _ in 0..=self.rng.below(6) {
            let no = self.rng.below(KEYS);
            self.version += 1;
            let len = *self.rng.pick(&[24, 60, 300, 1500]);
            // A value of its own extent now and then.
            let len = if self.rng.chance(1, 60) { 20_000 } else { len };
            let value = match no % 2 {
                1 => self.version.to_le_bytes().to_vec(),
                _ => stamp(WRITER, no, self.version, len),
            };
            batch.put(&self.space, key(no), &value);
            puts.push((key(no), value));
        }
        self.db.write(&batch)?;
        self.model.extend(puts);
        Ok(())
    }

    /// Takes a file in: a stretch of keys.
    fn ingest(&mut self) -> std::result::Result<(), End> {
        let Some(file) = self.files.clone() else { return Ok(()) };
        let from = self.rng.below(KEYS);
        let options = WriterOptions { external: true, ..WriterOptions::default() };
        let mut writer = Writer::new(Vec::new(), options);
        let mut puts = Vec::new();
        for no in (from..KEYS.min(from + 40)).filter(|no| no % 2 == 0) {
            self.version += 1;
            let value = stamp(WRITER, no, self.version, 100);
            writer.add(&key(no), Seq::ZERO, EntryKind::Value, &value)?;
            puts.push((key(no), value));
        }
        if puts.is_empty() {
            return Ok(());
        }
        std::fs::write(&file, writer.finish()?.0)
            .map_err(|error| End::Violation(format!("{}: {error}", file.display())))?;
        match self.db.ingest(&self.space, &[file], IngestOptions::default().move_files(false)) {
            Ok(_) => {
                self.told.ingested();
                self.model.extend(puts);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Busy => Ok(()),
            Err(error) => Ok(on_purpose(error)?),
        }
    }

    fn get(&mut self) -> std::result::Result<(), End> {
        let key = key(self.rng.below(KEYS));
        let found = patiently(|| self.space.get(&key))?;
        self.compare(&found.as_ref(), &self.model.get(&key), "a get")
    }

    fn scan(&mut self) -> std::result::Result<(), End> {
        let now = ReadOptions::default();
        self.compare(&contents(&self.space, &now)?, &self.model, "a scan")?;
        self.compare(&backward(&self.space, &now)?, &self.model, "a scan backward")
    }

    /// Looks at the oldest snapshot once more, and lets it go.
    fn look_back(&mut self) -> std::result::Result<(), End> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let (snapshot, then) = self.snapshots.remove(0);
        let options = ReadOptions::at(&snapshot);
        let found = contents(&self.space, &options)?;
        self.told.looked_back();
        self.compare(&found, &then, "a scan of a snapshot")
    }

    /// An iterator in the middle of the keyspace.
    fn hold(&mut self) -> std::result::Result<Option<Cursor>, End> {
        let from = key(self.rng.below(KEYS));
        let mut iter = self.space.cursor(&ReadOptions::default())?;
        let sought = patiently(|| iter.seek(&from));
        sought?;
        let expected = self.model.range(from..).next().map(|(key, _)| &key[..]);
        self.compare(&iter.key(), &expected, "a seek")?;
        Ok(Some(iter))
    }

    /// Reads on in a keyspace that was dropped: what it held, or an error that says so.
    fn read_on(&self, iter: &mut Cursor) -> std::result::Result<(), End> {
        loop {
            let (key, value) = match (iter.key(), iter.value()) {
                (Some(key), Ok(Some(value))) => (key, value),
                (_, Err(error)) if error.kind() != ErrorKind::Closed => return Err(error.into()),
                _ => return Ok(()),
            };
            let expected = self.model.get(key).map(Vec::as_slice);
            self.compare(&Some(value), &expected, "an iterator over a dropped keyspace")?;
            match iter.next() {
                Err(error) if error.kind() == ErrorKind::Closed => return Ok(()),
                Err(error) if error.to_string().contains(ON_PURPOSE) => return Ok(()),
                moved => moved?,
            }
        }
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let from = self.rng.below(KEYS);
        (key(from), key(from + 1 + self.rng.below(KEYS / 4)))
    }

    fn compare<T: PartialEq>(
        &self,
        found: &T,
        expected: &T,
        what: &str,
    ) -> std::result::Result<(), End> {
        if found == expected {
            return Ok(());
        }
        Err(End::Violation(format!("{}: {what} differs from the model", self.space.name())))
    }
}

/// Lets a job that application code made fail be: it is tried again.
fn on_purpose(error: strandline::Error) -> Result<()> {
    if error.to_string().contains(ON_PURPOSE) { Ok(()) } else { Err(error) }
}
