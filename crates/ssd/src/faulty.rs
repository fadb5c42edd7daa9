//! [`Faulty`]: a file system on which calls fail by rule.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Result;

use crate::call::Call;
use crate::fs::{Append, Fs, Overwrite, PendingRead, Read};
use crate::refused::{failed_before, link_refused, refused};
use crate::rule::{Failure, Rule};

/// Another file system, with some calls that fail.
#[derive(Debug)]
pub struct Faulty<F> {
    inner: Arc<F>,
    ledger: Arc<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    rules: Vec<Rule>,
    counts: [u64; Call::ALL.len()],
    struck: u64,
}

impl<F: Fs> Faulty<F> {
    /// No call fails yet.
    pub fn new(inner: F) -> Self {
        Self { inner: Arc::new(inner), ledger: Arc::default() }
    }

    /// These rules hold from now on, in place of any before; their counts begin now. The first that is due
    /// decides.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        self.ledger.lock().rules = rules;
    }

    /// Calls of a kind so far, those that failed included.
    pub fn calls(&self, call: Call) -> u64 {
        self.ledger.lock().counts[call as usize]
    }

    /// Calls of all kinds so far.
    pub fn all_calls(&self) -> u64 {
        self.ledger.lock().counts.iter().sum()
    }

    /// How often a rule made a call fail.
    pub fn struck(&self) -> u64 {
        self.ledger.lock().struck
    }

    /// The file system behind.
    pub fn inner(&self) -> &F {
        &self.inner
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; how it fails, if it does.
    fn strikes(&self, call: Call, paths: &[&Path]) -> Option<Failure> {
        let mut entries = self.lock();
        entries.counts[call as usize] += 1;
        // Every rule counts every call, also one that another rule fails.
        let due: Vec<_> = entries.rules.iter_mut().map(|r| r.strikes(call, paths)).collect();
        let failure = due.into_iter().flatten().next();
        entries.struck += u64::from(failure.is_some());
        failure
    }

    /// As [`strikes`](Self::strikes), where a failed call does nothing.
    fn check(&self, call: Call, paths: &[&Path]) -> Result<()> {
        match self.strikes(call, paths) {
            Some(failure) if call == Call::Link => Err(link_refused(paths[0], failure.errno())),
            Some(failure) => Err(refused(call.name(), paths[0], failure.errno())),
            None => Ok(()),
        }
    }
}

struct FaultyAppending<F> {
    fs: Arc<F>,
    ledger: Arc<Ledger>,
    path: PathBuf,
    inner: Box<dyn Append>,
    synced: u64,
    failed: bool,
}

impl<F: Fs> FaultyAppending<F> {
    /// Runs one call, or fails it; a failure is final.
    fn once(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut dyn Append) -> Result<()>,
        fail: impl FnOnce(&mut Self, Failure) -> Result<()>,
    ) -> Result<()> {
        if self.failed {
            return Err(failed_before(call.name(), &self.path));
        }
        let result = match self.ledger.strikes(call, &[&self.path]) {
            None => act(self.inner.as_mut()),
            Some(failure) => fail(self, failure)
                .and_then(|()| Err(refused(call.name(), &self.path, failure.errno()))),
        };
        self.failed = result.is_err();
        result
    }

    /// Puts a file in this one's place that has zeros where this one was not synced.
    fn lose_pages(&self) -> Result<()> {
        let mut bytes = vec![0; self.inner.len() as usize];
        self.fs.open(&self.path)?.read_at(0, &mut bytes[..self.synced as usize])?;
        self.fs.remove(&self.path)?;
        let mut file = self.fs.create(&self.path)?;
        file.append(&bytes)?;
        file.sync()
    }
}

impl<F: Fs> Append for FaultyAppending<F> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let fail = |file: &mut Self, failure| match failure {
            Failure::Short => file.inner.append(&bytes[..bytes.len() / 2]),
            _ => Ok(()),
        };
        self.once(Call::Append, |inner| inner.append(bytes), fail)
    }

    fn sync(&mut self) -> Result<()> {
        let fail = |file: &mut Self, failure| match failure {
            Failure::LosesPages => file.lose_pages(),
            _ => Ok(()),
        };
        self.once(Call::Sync, |inner| inner.sync(), fail)?;
        self.synced = self.inner.len();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise_written(&mut self) {
        self.inner.advise_written();
    }
}

struct FaultyOverwriting {
    ledger: Arc<Ledger>,
    path: PathBuf,
    inner: Box<dyn Overwrite>,
    /// What a write has a multiple of, in bytes.
    block: usize,
    failed: bool,
}

impl FaultyOverwriting {
    /// Runs one call, or fails it; a failure is final. Of a write that fails, half may be done.
    fn once(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut dyn Overwrite) -> Result<()>,
        half: impl FnOnce(&mut dyn Overwrite) -> Result<()>,
    ) -> Result<()> {
        if self.failed {
            return Err(failed_before(call.name(), &self.path));
        }
        let result = match self.ledger.strikes(call, &[&self.path]) {
            None => act(self.inner.as_mut()),
            Some(failure) => {
                let done =
                    if failure == Failure::Short { half(self.inner.as_mut()) } else { Ok(()) };
                done.and_then(|()| Err(refused(call.name(), &self.path, failure.errno())))
            }
        };
        self.failed = result.is_err();
        result
    }
}

impl Overwrite for FaultyOverwriting {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let half = &bytes[..bytes.len() / 2 / self.block * self.block];
        self.once(Call::Write, |inner| inner.write_at(at, bytes), |inner| inner.write_at(at, half))
    }

    fn sync(&mut self) -> Result<()> {
        self.once(Call::Sync, |inner| inner.sync(), |_| Ok(()))
    }

    fn map(&mut self, len: u64) -> bool {
        let may = !self.failed && self.ledger.strikes(Call::Map, &[&self.path]).is_none();
        may && self.inner.map(len)
    }

    fn bypass(&mut self) -> Result<Option<NonZeroU64>> {
        if self.failed {
            return Err(failed_before(Call::Bypass.name(), &self.path));
        }
        let result = match self.ledger.strikes(Call::Bypass, &[&self.path]) {
            None => self.inner.bypass(),
            Some(Failure::Unsupported) => Ok(None),
            Some(failure) => Err(refused(Call::Bypass.name(), &self.path, failure.errno())),
        };
        self.failed = result.is_err();
        if let Ok(Some(block)) = result {
            self.block = block.get() as usize;
        }
        result
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.once(Call::Truncate, |inner| inner.truncate(len), |_| Ok(()))
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise_written(&mut self, range: Range<u64>) {
        self.inner.advise_written(range);
    }
}

struct FaultyReading {
    ledger: Arc<Ledger>,
    inner: Arc<dyn Read>,
}

impl Read for FaultyReading {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.ledger.check(Call::Read, &[self.path()])?;
        self.inner.read_at(at, out)
    }

    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.ledger.check(Call::Read, &[self.path()])?;
        self.inner.read_many(ranges)
    }

    /// Counts as a call, and fails when it is waited for.
    fn begin(&self, at: u64, len: usize) -> Option<Box<dyn PendingRead>> {
        let begun = self.inner.begin(at, len)?;
        let checked = self.ledger.check(Call::Read, &[self.path()]);
        Some(Box::new(FaultyPending { begun, checked }))
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn will_need(&self, at: u64, len: u64) {
        self.inner.will_need(at, len);
    }
}

struct FaultyPending {
    begun: Box<dyn PendingRead>,
    checked: Result<()>,
}

impl PendingRead for FaultyPending {
    fn finish(self: Box<Self>, out: &mut [u8]) -> Result<()> {
        self.checked?;
        self.begun.finish(out)
    }
}

impl<F: Fs> Fs for Faulty<F> {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.ledger.check(Call::CreateDir, &[dir])?;
        self.inner.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.ledger.check(Call::List, &[dir])?;
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.ledger.check(Call::Exists, &[path])?;
        self.inner.exists(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        self.ledger.check(Call::Create, &[path])?;
        Ok(Box::new(FaultyAppending {
            inner: self.inner.create(path)?,
            fs: Arc::clone(&self.inner),
            ledger: Arc::clone(&self.ledger),
            path: path.to_path_buf(),
            synced: 0,
            failed: false,
        }))
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        self.ledger.check(Call::Overwrite, &[path])?;
        Ok(Box::new(FaultyOverwriting {
            inner: self.inner.overwrite(path)?,
            ledger: Arc::clone(&self.ledger),
            path: path.to_path_buf(),
            block: 1,
            failed: false,
        }))
    }

    fn keeps_blocks(&self, dir: &Path) -> bool {
        self.inner.keeps_blocks(dir)
    }

    fn is_memory(&self, dir: &Path) -> bool {
        self.inner.is_memory(dir)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        self.ledger.check(Call::Open, &[path])?;
        let inner = self.inner.open(path)?;
        Ok(Arc::new(FaultyReading { ledger: Arc::clone(&self.ledger), inner }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.ledger.check(Call::Rename, &[from, to])?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.ledger.check(Call::Link, &[to, from])?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.ledger.check(Call::Remove, &[path])?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.ledger.check(Call::RemoveDir, &[path])?;
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.ledger.check(Call::SyncDir, &[dir])?;
        self.inner.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.ledger.check(Call::FreeBytes, &[dir])?;
        self.inner.free_bytes(dir)
    }

    fn describe(&self) -> String {
        format!("faulty {}", self.inner.describe())
    }
}
