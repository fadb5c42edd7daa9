//! Gets that read the disk, told apart from those that found all in caches: by what the system counts for their thread, which is
//! the same for all engines, and leaves out what other threads read meanwhile.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of so many gets one is looked at: two looks take about as long as a get from a cache.
const GETS_A_LOOK: u32 = 16;

/// Which gets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// None.
    Off,
    /// One in so many, evenly.
    On,
}

/// Gets of all threads that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Their number.
    pub looked: u64,
    /// Those that found all in caches.
    pub found: u64,
}

impl Hits {
    /// Those that found all in caches, of a hundred.
    pub fn percent(self) -> f64 {
        100.0 * self.found as f64 / self.looked.max(1) as f64
    }
}

/// The same while threads count.
#[derive(Debug)]
pub struct Misses {
    looks: Looks,
    looked: AtomicU64,
    found: AtomicU64,
}

impl Misses {
    /// None yet.
    pub fn new(looks: Looks) -> Misses {
        Misses { looks, looked: AtomicU64::new(0), found: AtomicU64::new(0) }
    }

    /// For gets of the thread that calls.
    pub fn watch(&self) -> Watch<'_> {
        let own = match self.looks {
            Looks::Off => None,
            Looks::On => File::open("/proc/thread-self/io").ok(),
        };
        Watch { own, turn: 0, misses: self }
    }

    /// What was seen; none if nothing was looked at.
    pub fn hits(&self) -> Option<Hits> {
        let hits = Hits { looked: self.looked.load(Relaxed), found: self.found.load(Relaxed) };
        (hits.looked > 0).then_some(hits)
    }
}

/// Looks at gets of one thread.
#[derive(Debug)]
pub struct Watch<'m> {
    /// What the system counts for this thread.
    own: Option<File>,
    turn: u32,
    misses: &'m Misses,
}

impl Watch<'_> {
    /// Does `get`.
    #[inline]
    pub fn look<R>(&mut self, get: impl FnOnce() -> R) -> R {
        let Some(own) = &self.own else { return get() };
        self.turn += 1;
        if self.turn < GETS_A_LOOK {
            return get();
        }
        self.turn = 0;
        let before = read_bytes(own);
        let done = get();
        if let (Some(before), Some(after)) = (before, read_bytes(own)) {
            self.misses.looked.fetch_add(1, Relaxed);
            self.misses.found.fetch_add(u64::from(after == before), Relaxed);
        }
        done
    }
}

/// Bytes that the thread of this file of the system has read from disks.
fn read_bytes(own: &File) -> Option<u64> {
    let mut text = [0; 256];
    let len = own.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground;

    #[test]
    fn a_read_of_the_disk_is_a_miss_of_its_thread_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let (misses, off) = (Misses::new(Looks::On), Misses::new(Looks::Off));
        let read = || {
            ground::chill(folder.path()).unwrap();
            std::fs::read(&path).unwrap()
        };
        let mut watch = misses.watch();
        for turn in 0..2 * GETS_A_LOOK {
            match turn / GETS_A_LOOK {
                0 => assert_eq!(watch.look(read).len(), 1 << 20),
                // What another thread reads is not this one's.
                _ => watch.look(|| _ = std::thread::scope(|scope| scope.spawn(read).join())),
            }
            off.watch().look(|| ());
        }
        // In memory there is nothing to read from.
        let found = if ground::check(folder.path()).is_ok() { 1 } else { 2 };
        assert_eq!(misses.hits(), Some(Hits { looked: 2, found }));
        assert_eq!(misses.hits().unwrap().percent(), 50.0 * found as f64);
        assert_eq!(off.hits(), None);
    }
}
