//! The disk beside the memory: booted for each image, and what a power cut may make of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ssd::{Disk, Fs, Memory, Watch};

use crate::cut::Doubt;
use crate::hash;

/// The file system of one depth of crashes.
#[derive(Default)]
pub(crate) struct Files {
    booted: Option<Booted>,
}

struct Booted {
    from: Arc<Disk>,
    memory: Memory,
    fs: Arc<dyn Fs>,
}

impl Files {
    /// A file system with what is on `disk`, watched by `watch`, which is always the same. Where the last
    /// one began with this very disk and nothing was changed, that is it: stores that leave the disk alone
    /// pay nothing for it.
    pub(crate) fn boot<W: Watch + 'static>(
        &mut self,
        disk: &Arc<Disk>,
        watch: &Arc<W>,
    ) -> Arc<dyn Fs> {
        let same = |b: &&mut Booted| Arc::ptr_eq(&b.from, disk) && b.memory.is_untouched();
        if let Some(booted) = self.booted.as_mut().filter(same) {
            return Arc::clone(&booted.fs);
        }
        let memory = Memory::watched(Disk::clone(disk), Arc::clone(watch) as Arc<dyn Watch>);
        let fs: Arc<dyn Fs> = Arc::new(memory.clone());
        self.booted = Some(Booted { from: Arc::clone(disk), memory, fs: Arc::clone(&fs) });
        fs
    }

    /// The file system as the last process left it, for the next one.
    ///
    /// # Panics
    /// If none was booted.
    pub(crate) fn go_on(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.booted.as_ref().expect("a process ran before").fs)
    }

    /// The disk as it is now.
    ///
    /// # Panics
    /// If none was booted.
    pub(crate) fn disk(&self) -> Disk {
        self.booted.as_ref().expect("a process ran before").memory.disk()
    }
}

/// A disk after a power cut, all of it durable.
#[derive(Clone)]
pub(crate) struct Survivor {
    pub(crate) disk: Arc<Disk>,
    pub(crate) hash: u64,
    /// Of what lies beside the store; 0 if nothing does.
    pub(crate) beside: u64,
}

/// The survivors of one disk, each made once.
pub(crate) struct Survivors {
    disk: Arc<Disk>,
    doubts: Arc<[Doubt]>,
    beside_dir: Option<&'static str>,
    made: BTreeMap<Vec<u16>, Survivor>,
}

/// Survivors kept: a disk that stays as it is for many crash points would have ever more of them.
const MOST_MADE: usize = 10_000;

impl Survivors {
    pub(crate) fn new(disk: Arc<Disk>, beside_dir: Option<&'static str>) -> Self {
        let doubts = disk.doubts().into_iter().map(Doubt::from).collect();
        Self { disk, doubts, beside_dir, made: BTreeMap::new() }
    }

    /// The disk that loses power.
    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// What power decides on it.
    pub(crate) fn doubts(&self) -> &Arc<[Doubt]> {
        &self.doubts
    }

    /// What is left if power decides as `choice` says.
    pub(crate) fn get(&mut self, choice: &[u16]) -> &Survivor {
        if self.made.len() >= MOST_MADE {
            self.made.clear();
        }
        if !self.made.contains_key(choice) {
            // With nothing in doubt the disk survives as it is.
            let disk = match choice.is_empty() {
                true => Arc::clone(&self.disk),
                false => Arc::new(self.disk.survivor(choice)),
            };
            let (hash, beside) = hash::disk(&disk, self.beside_dir);
            self.made.insert(choice.to_vec(), Survivor { disk, hash, beside });
        }
        &self.made[choice]
    }
}
