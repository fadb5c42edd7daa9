//! [`Memory`]: a file system in memory that knows what a power cut would leave of it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Result;
use rustix::io::Errno;

use crate::call::Call;
use crate::disk::{Disk, Heed};
use crate::fs::{Append, Fs, Overwrite, PendingRead, Read};
use crate::refused::{ends_early, link_refused, not_a_file, refused};
use crate::watch::Watch;

/// Sectors of a block past the page cache. Power failure may tear it.
const BLOCK_SECTORS: u64 = 8;

/// A file system in memory, for tests: deterministic, and its [`disk`](Self::disk) can be cut off at any
/// moment. Clones are the same file system.
///
/// Paths may be absolute or not, which is the same; `..` is refused.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// In bytes.
    capacity: u64,
    watch: Option<Arc<dyn Watch>>,
}

struct State {
    disk: Disk,
    /// Handles by file; what is open is kept although its last name may be gone.
    open: BTreeMap<u32, u32>,
    /// Some of them have no name. Names are gone for good only when a directory is synced, so else there is nothing to
    /// look for when a file is closed.
    lingers: bool,
    untouched: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Disk::default())
    }
}

impl Memory {
    /// Goes on with a disk, such as one that survived a power cut.
    pub fn new(disk: Disk) -> Self {
        Self::with(disk, u64::MAX, None)
    }

    /// As [`new`](Self::new), with room for `capacity` bytes in files; beyond that `append` fails as on a
    /// full device.
    pub fn with_capacity(disk: Disk, capacity: u64) -> Self {
        Self::with(disk, capacity, None)
    }

    /// As [`new`](Self::new), watched.
    pub fn watched(disk: Disk, watch: Arc<dyn Watch>) -> Self {
        Self::with(disk, u64::MAX, Some(watch))
    }

    fn with(disk: Disk, capacity: u64, watch: Option<Arc<dyn Watch>>) -> Self {
        let state =
            Mutex::new(State { disk, open: BTreeMap::new(), lingers: false, untouched: true });
        Self { shared: Arc::new(Shared { state, capacity, watch }) }
    }

    /// The disk as it is now. Its [survivors](Disk::survivors) are what a power cut at this moment may
    /// leave; the disk itself is what a killed process leaves.
    pub fn disk(&self) -> Disk {
        self.shared.state().disk.clone()
    }

    /// Whether the disk is still the one that this began with.
    pub fn is_untouched(&self) -> bool {
        self.shared.state().untouched
    }
}

impl Shared {
    // A panic of a store under test must not take the disk away from the next.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one call.
    fn call<T>(
        &self,
        call: Call,
        path: &Path,
        act: impl FnOnce(&mut State, Heed) -> Result<T, Errno>,
    ) -> Result<T> {
        self.watched(call, path, act).map_err(|errno| refused(call.name(), path, errno))
    }

    /// Makes one call that gives what is `from` the name `to`.
    fn call_to(
        &self,
        call: Call,
        [from, to]: [&Path; 2],
        act: impl FnOnce(&mut State, Heed) -> Result<(), Errno>,
    ) -> Result<()> {
        self.watched(call, to, act).map_err(|errno| {
            let there = self.state().disk.exists(from).unwrap_or(false);
            let blamed = if there { to } else { from };
            match call {
                Call::Link => link_refused(blamed, errno),
                _ => refused(call.name(), blamed, errno),
            }
        })
    }

    fn watched<T>(
        &self,
        call: Call,
        path: &Path,
        act: impl FnOnce(&mut State, Heed) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let heed = self.watch.as_ref().map_or(Heed::Whole, |watch| watch.before(call, path));
        let mut state = self.state();
        if let Some(watch) = &self.watch {
            state.disk.set_tick(watch.now());
        }
        let result = act(&mut state, heed)?;
        if call.changes() {
            state.untouched = false;
            if let Some(watch) = &self.watch {
                watch.changed(call, path, &state.disk);
                drop(state);
                watch.after(call, path);
            }
        }
        Ok(result)
    }

    /// Gives a file at least `len` bytes, with zeros behind what it has.
    fn grow(&self, state: &mut State, file: u32, len: u64) -> Result<(), Errno> {
        let there = state.disk.len(file);
        let zeros = len.saturating_sub(there);
        if self.free(state) < zeros {
            return Err(Errno::NOSPC);
        }
        state.disk.write_at(file, there, &vec![0; zeros as usize]);
        Ok(())
    }

    fn free(&self, state: &State) -> u64 {
        match self.capacity {
            u64::MAX => u64::MAX,
            capacity => capacity.saturating_sub(state.disk.used()),
        }
    }
}

impl State {
    fn forget(&mut self) {
        let State { disk, open, lingers, .. } = self;
        *lingers = disk.forget(|id| open.contains_key(&id));
    }
}

/// A file that stays as long as this does.
struct Handle {
    shared: Arc<Shared>,
    file: u32,
    path: PathBuf,
}

impl Handle {
    fn new(shared: &Arc<Shared>, file: u32, path: &Path) -> Self {
        *shared.state().open.entry(file).or_default() += 1;
        Self { shared: Arc::clone(shared), file, path: path.to_path_buf() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(count) = state.open.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.file);
                if state.lingers {
                    state.forget();
                }
            }
        }
    }
}

struct MemoryAppending {
    handle: Handle,
    len: u64,
    failed: bool,
}

impl MemoryAppending {
    fn once(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut State, Heed) -> Result<(), Errno>,
    ) -> Result<()> {
        if self.failed {
            return Err(crate::refused::failed_before(call.name(), &self.handle.path));
        }
        let result = self.handle.shared.call(call, &self.handle.path, act);
        self.failed = result.is_err();
        result
    }
}

impl Append for MemoryAppending {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (shared, file) = (Arc::clone(&self.handle.shared), self.handle.file);
        self.once(Call::Append, |state, _| {
            if shared.free(state) < bytes.len() as u64 {
                return Err(Errno::NOSPC);
            }
            state.disk.append(file, bytes);
            Ok(())
        })?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let file = self.handle.file;
        self.once(Call::Sync, |state, heed| {
            state.disk.sync(file, heed);
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct MemoryOverwriting {
    handle: Handle,
    /// Past the page cache, writes are of whole ones.
    block: Option<NonZeroU64>,
    failed: bool,
}

impl MemoryOverwriting {
    fn once(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut State, Heed) -> Result<(), Errno>,
    ) -> Result<()> {
        if self.failed {
            return Err(crate::refused::failed_before(call.name(), &self.handle.path));
        }
        let result = self.handle.shared.call(call, &self.handle.path, act);
        self.failed = result.is_err();
        result
    }
}

impl Overwrite for MemoryOverwriting {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let (shared, file) = (Arc::clone(&self.handle.shared), self.handle.file);
        let is_whole = |block: NonZeroU64| {
            at.is_multiple_of(block.get()) && (bytes.len() as u64).is_multiple_of(block.get())
        };
        let may = self.block.is_none_or(is_whole);
        self.once(Call::Write, |state, _| {
            if !may {
                return Err(Errno::INVAL);
            }
            let grows = (at + bytes.len() as u64).saturating_sub(state.disk.len(file));
            if shared.free(state) < grows {
                return Err(Errno::NOSPC);
            }
            state.disk.write_at(file, at, bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        let file = self.handle.file;
        self.once(Call::Sync, |state, heed| {
            state.disk.sync(file, heed);
            Ok(())
        })
    }

    fn map(&mut self, len: u64) -> bool {
        if self.failed {
            return false;
        }
        let Handle { shared, file, path } = &self.handle;
        let mapped = shared.call(Call::Map, path, |state, _| {
            // It grows as far as it may. Room with nothing in it reads as zeros.
            shared.grow(state, *file, len)
        });
        mapped.is_ok()
    }

    fn bypass(&mut self) -> Result<Option<NonZeroU64>> {
        let (shared, file) = (Arc::clone(&self.handle.shared), self.handle.file);
        let mut block = 0;
        self.once(Call::Bypass, |state, _| {
            block = BLOCK_SECTORS * state.disk.sector() as u64;
            shared.grow(state, file, block)
        })?;
        self.block = NonZeroU64::new(block);
        Ok(self.block)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let file = self.handle.file;
        self.once(Call::Truncate, |state, _| {
            state.disk.truncate(file, len);
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.handle.shared.state().disk.len(self.handle.file)
    }
}

struct MemoryReading {
    handle: Handle,
    len: u64,
}

impl Read for MemoryReading {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let Handle { shared, file, path } = &self.handle;
        let got = shared.call(Call::Read, path, |state, _| {
            let bytes = state.disk.bytes(*file);
            let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let got = out.len().min(bytes.len() - start);
            out[..got].copy_from_slice(&bytes[start..start + got]);
            Ok(got)
        })?;
        if got < out.len() {
            return Err(ends_early(path, at, out.len(), got));
        }
        Ok(())
    }

    fn begin(&self, at: u64, len: usize) -> Option<Box<dyn PendingRead>> {
        let mut bytes = vec![0; len];
        Some(Box::new(ReadBefore(self.read_at(at, &mut bytes).map(|()| bytes))))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }
}

/// A read that was done when it was begun.
struct ReadBefore(Result<Vec<u8>>);

impl PendingRead for ReadBefore {
    fn finish(self: Box<Self>, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&self.0?);
        Ok(())
    }
}

impl Fs for Memory {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.shared.call(Call::CreateDir, dir, |state, _| state.disk.create_dir_all(dir))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.shared.call(Call::List, dir, |state, _| state.disk.list(dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.shared.call(Call::Exists, path, |state, _| state.disk.exists(path))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let file = self.shared.call(Call::Create, path, |state, _| state.disk.create(path))?;
        let handle = Handle::new(&self.shared, file, path);
        Ok(Box::new(MemoryAppending { handle, len: 0, failed: false }))
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        let file = self.shared.call(Call::Overwrite, path, |state, _| state.disk.open(path))?;
        let file = file.ok_or_else(|| not_a_file(path))?;
        let handle = Handle::new(&self.shared, file, path);
        Ok(Box::new(MemoryOverwriting { handle, block: None, failed: false }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        let file = self.shared.call(Call::Open, path, |state, _| state.disk.open(path))?;
        let file = file.ok_or_else(|| not_a_file(path))?;
        let len = self.shared.state().disk.bytes(file).len() as u64;
        Ok(Arc::new(MemoryReading { handle: Handle::new(&self.shared, file, path), len }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.shared.call_to(Call::Rename, [from, to], |state, _| state.disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.shared.call_to(Call::Link, [from, to], |state, _| state.disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.shared.call(Call::Remove, path, |state, _| state.disk.remove(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.shared.call(Call::RemoveDir, path, |state, _| state.disk.remove_dir(path))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.shared.call(Call::SyncDir, dir, |state, heed| {
            state.disk.sync_dir(dir, heed)?;
            state.forget();
            Ok(())
        })
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.shared.call(Call::FreeBytes, dir, |state, _| Ok(self.shared.free(state)))
    }

    fn describe(&self) -> String {
        "memory".to_string()
    }
}
