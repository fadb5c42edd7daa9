//! What a damaged store may say: the right thing, or that it is damaged.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use strandline::{Db, Error, ErrorKind, Keyspace, LostRange, ReadOptions, repair};

use crate::common::{self, TempDir};
use crate::golden::{Golden, Known, options, read_files, write_files};

/// Longer than any open, with all reads of it, should take: more is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// More than all stores of this test together ever need: no length that is read from media is believed.
const MEMORY_MAX: u64 = 2 << 30;

/// The most memory that this process ever had.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// How damage came to light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The open was refused.
    Refused,
    /// `check` lists it.
    Found,
    /// Not at all: every answer is right, and `check` finds nothing.
    Quiet,
}

/// What was tried, and what went wrong.
#[derive(Default)]
pub struct Tally {
    pub tried: u32,
    pub verdicts: BTreeMap<Verdict, u32>,
    /// By the reason why it means nothing.
    harmless: BTreeMap<&'static str, u32>,
    pub repairs: u32,
    pub writers: u32,
    wrong: BTreeMap<String, (u32, String)>,
}

impl Tally {
    pub fn note(&mut self, what: impl Into<String>, at: &str) {
        self.wrong.entry(what.into()).or_insert_with(|| (0, at.to_owned())).0 += 1;
    }

    /// Notes why damage did not come to light.
    pub fn excuse(&mut self, why: &'static str) {
        *self.harmless.entry(why).or_default() += 1;
    }

    #[track_caller]
    pub fn assert_clean(&self, name: &str, least: u32) {
        println!(
            "{name}: {} tried, {:?}, harmless {:?}, {} repaired, {} opened for writing",
            self.tried, self.verdicts, self.harmless, self.repairs, self.writers
        );
        assert!(self.wrong.is_empty(), "what, how often, where first: {:#?}", self.wrong);
        assert!(self.tried >= least, "only {} places were tried", self.tried);
        assert!(most_memory() < MEMORY_MAX, "{} bytes", most_memory());
    }
}

/// What else is done with a damaged store, beside reading it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Also {
    pub repair: bool,
    pub write: bool,
}

/// Judges the damaged store in `dir`. `at` says where the damage is, for messages; `file` is its path in the store.
pub fn judge(
    golden: &Golden,
    dir: &Path,
    at: &str,
    also: Also,
    tally: &mut Tally,
) -> Option<Verdict> {
    tally.tried += 1;
    let begun = Instant::now();
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let verdict = read(golden, dir, at, tally);
        if also.repair {
            repaired(golden, dir, at, verdict, tally);
        }
        if also.write {
            written(golden, dir, at, tally);
        }
        verdict
    }));
    if begun.elapsed() > PATIENCE {
        tally.note("takes very long", at);
    }
    let Ok(verdict) = judged else {
        tally.note("panic", at);
        return None;
    };
    *tally.verdicts.entry(verdict).or_default() += 1;
    Some(verdict)
}

/// An error of an open: of a kind that fits, naming a file of the store, and what to do.
fn check_refusal(error: &Error, dir: &Path, at: &str, tally: &mut Tally) {
    use ErrorKind::{Corruption, InvalidArgument, NotFound, NotSupported};
    if ![Corruption, InvalidArgument, NotFound, NotSupported].contains(&error.kind()) {
        tally.note(format!("open says {:?}", error.kind()), &format!("{at}: {error}"));
    }
    let text = error.context();
    if !text.contains(&dir.display().to_string()) {
        tally.note("a refusal names no file", &format!("{at}: {error}"));
    }
    if !text.contains(';') && !text.contains(", ") {
        tally.note("a refusal names no remedy", &format!("{at}: {error}"));
    }
}

fn read(golden: &Golden, dir: &Path, at: &str, tally: &mut Tally) -> Verdict {
    let db = match Db::open_read_only(dir, options()) {
        Ok(db) => db,
        Err(error) => {
            check_refusal(&error, dir, at, tally);
            return Verdict::Refused;
        }
    };
    let failed = verify(&db, golden, at, tally);
    match db.check() {
        Ok(report) if !report.damage.is_empty() => Verdict::Found,
        Ok(_) => {
            if failed {
                tally.note("reads fail but check finds nothing", at);
            }
            Verdict::Quiet
        }
        Err(error) => {
            tally.note(format!("check says {error}"), at);
            Verdict::Found
        }
    }
}

/// Holds every read against what is known; whether any said `Corruption`.
pub fn verify(db: &Db, golden: &Golden, at: &str, tally: &mut Tally) -> bool {
    let mut failed = false;
    for (name, known) in &golden.known {
        match db.keyspace(name) {
            Ok(keyspace) => failed |= verify_keyspace(&keyspace, known, golden, at, tally),
            Err(error) if error.kind() == ErrorKind::Corruption => failed = true,
            Err(error) => tally.note(format!("keyspace {name}: {error}"), at),
        }
    }
    failed
}

fn verify_keyspace(
    keyspace: &Keyspace,
    known: &Known,
    golden: &Golden,
    at: &str,
    tally: &mut Tally,
) -> bool {
    let mut failed = false;
    let mut told = |error: &Error, tally: &mut Tally| {
        failed = true;
        if error.kind() != ErrorKind::Corruption {
            tally.note(format!("a read says {error}"), at);
        }
    };
    let mut doubtful = None;
    for (key, value) in &known.live {
        match keyspace.get(key) {
            Ok(Some(found)) if found == *value => {}
            Ok(Some(_)) => tally.note("get gives a wrong or stale value", &on(at, key)),
            // Cut off like a torn write, in which case scans agree.
            Ok(None) if golden.doubtful.as_ref() == Some(key) => doubtful = Some(key),
            Ok(None) => tally.note("get says that a key is not there", &on(at, key)),
            Err(error) => told(&error, tally),
        }
    }
    for key in &known.absent {
        match keyspace.get(key) {
            Ok(None) => {}
            Ok(Some(_)) => tally.note("get gives what is not there", &on(at, key)),
            Err(error) => told(&error, tally),
        }
    }
    for forward in [true, false] {
        let expected = known.live.iter().filter(|(key, _)| doubtful != Some(*key));
        if let Err(error) = scan(keyspace, expected, forward, at, tally) {
            told(&error, tally);
        }
    }
    failed
}

fn on(at: &str, key: &[u8]) -> String {
    format!("{at}, key {}", key.escape_ascii())
}

/// Walks all of a keyspace, up to the first error. Keys passed over are noted where no error follows.
fn scan<'k>(
    keyspace: &Keyspace,
    expected: impl DoubleEndedIterator<Item = (&'k Vec<u8>, &'k Vec<u8>)>,
    forward: bool,
    at: &str,
    tally: &mut Tally,
) -> Result<(), Error> {
    let mut iter = keyspace.cursor(&ReadOptions::default())?;
    let mut left: Vec<_> = expected.collect();
    if forward {
        iter.seek_to_first()?;
        left.reverse();
    } else {
        iter.seek_to_last()?;
    }
    // Keys that were passed over, for which the scan owes an error at its end.
    let mut skipped = None;
    while let Some(key) = iter.key() {
        let value = loop {
            match left.pop() {
                Some((next, value)) if &next[..] == key => break Some(value),
                Some((next, _)) => skipped = Some(next),
                None => break None,
            }
        };
        let Some(value) = value else {
            tally.note("a scan gives what is not there, or out of order", &on(at, key));
            return Ok(());
        };
        if iter.value()? != Some(&value[..]) {
            tally.note("a scan gives a wrong or stale value", &on(at, key));
        }
        if forward { iter.next() } else { iter.prev() }?;
    }
    if let Some(key) = skipped.or(left.pop().map(|(key, _)| key)) {
        tally.note("a scan passes over keys without a word", &on(at, key));
    }
    Ok(())
}

/// Repair ends, and what it does not save is within what it lists.
fn repaired(golden: &Golden, dir: &Path, at: &str, verdict: Verdict, tally: &mut Tally) {
    tally.repairs += 1;
    let to = TempDir::new("repaired");
    let new = to.join("new");
    let report = match repair(dir, &new, options()) {
        Ok(report) => report,
        Err(error) => return tally.note(format!("repair says {error}"), at),
    };
    let db = match Db::open_read_only(&new, options()) {
        Ok(db) => db,
        Err(error) => return tally.note(format!("what was repaired: {error}"), at),
    };
    if !db.check().is_ok_and(|report| report.damage.is_empty()) {
        tally.note("what was repaired is damaged", at);
    }
    if verdict == Verdict::Quiet && !report.lost.is_empty() {
        tally.note("repair lists losses where there are none", at);
    }
    for (name, known) in &golden.known {
        let covered = |key: &[u8]| report.lost.iter().any(|lost| covers(lost, name, key));
        let Ok(space) = db.keyspace(name) else {
            if known.live.keys().any(|key| !covered(key)) {
                tally.note("repair loses a keyspace without a word", at);
            }
            continue;
        };
        let saved = crate::common::dump(&space, &ReadOptions::default());
        for (key, value) in &known.live {
            let right = saved.get(key) == Some(value) || golden.doubtful.as_ref() == Some(key);
            if !right && !covered(key) {
                tally.note("repair loses a key without a word", &on(at, key));
            }
        }
        for (key, value) in saved {
            if !known.live.contains_key(&key) && !covered(&key) {
                tally.note("repair brings back a key without a word", &on(at, &key));
            }
            if !known.written.contains(&(key.clone(), value)) {
                tally.note("repair invents a value", &on(at, &key));
            }
        }
    }
}

fn covers(lost: &LostRange, keyspace: &str, key: &[u8]) -> bool {
    lost.keyspace.as_ref().is_none_or(|name| name == keyspace) && common::covers(lost, key)
}

/// An open for writing is refused and changes nothing; or it goes on, and damage does not turn into absence.
fn written(golden: &Golden, dir: &Path, at: &str, tally: &mut Tally) {
    tally.writers += 1;
    let place = TempDir::new("written");
    let before = read_files(dir);
    write_files(place.path(), &before);
    let copy = place.path();
    let db = match Db::open(copy, options()) {
        Ok(db) => db,
        Err(error) => {
            check_refusal(&error, copy, at, tally);
            let changed: Vec<PathBuf> = changes(&before, &read_files(copy));
            if !changed.is_empty() {
                tally.note(format!("a refused open changed {changed:?}"), at);
            }
            return;
        }
    };
    verify(&db, golden, &format!("{at}, open for writing"), tally);
    // A caller that goes on regardless must not lose more.
    let _ = db.put(b"zz new", b"written later");
    let _ = db.flush();
    let _ = db.compact();
    let _ = db.delete(b"zz new");
    let _ = db.compact();
    verify(&db, golden, &format!("{at}, after compacting"), tally);
    drop(db);
    match Db::open(copy, options()) {
        Ok(db) => drop(verify(&db, golden, &format!("{at}, opened again"), tally)),
        Err(error) => check_refusal(&error, copy, at, tally),
    }
}

/// Files that are gone or not what they were.
fn changes(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    before.keys().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}
