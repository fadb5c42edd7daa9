//! Memory that a store takes: what the process has that no file backs, and what its files take in tmpfs. Pages of a
//! disk's files in the system's cache are not in it: no engine owns them, and the system takes them back. Nor are page tables.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(10);
/// Looks at memory for each look at files.
const LOOKS_A_WALK: u32 = 20;

/// Looks at memory all the while, and keeps the most.
pub struct MemoryMeter {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

struct Shared {
    /// What the process had before there was a store.
    before: u64,
    /// Folder of the store in tmpfs, if it has one there.
    folder: Option<PathBuf>,
    peak: AtomicU64,
    stop: AtomicBool,
}

impl MemoryMeter {
    /// Begins; what the process has now is not the store's.
    pub fn start(folder: Option<&Path>) -> MemoryMeter {
        let shared = Arc::new(Shared {
            before: anonymous_bytes(),
            folder: folder.map(Path::to_owned),
            peak: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let watcher = std::thread::spawn(move || watched.watch());
        MemoryMeter { shared, watcher: Some(watcher) }
    }

    /// The most since it was asked last.
    pub fn take_peak(&self) -> u64 {
        self.shared.look(self.shared.file_bytes());
        self.shared.peak.swap(0, Relaxed)
    }
}

impl Shared {
    fn watch(&self) {
        let (mut turn, mut files) = (0, 0);
        while !self.stop.load(Relaxed) {
            if turn % LOOKS_A_WALK == 0 {
                files = self.file_bytes();
            }
            turn += 1;
            self.look(files);
            std::thread::sleep(LOOK);
        }
    }

    fn look(&self, files: u64) {
        let bytes = anonymous_bytes().saturating_sub(self.before) + files;
        self.peak.fetch_max(bytes, Relaxed);
    }

    fn file_bytes(&self) -> u64 {
        self.folder.as_deref().map_or(0, blocks)
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(watcher) = self.watcher.take() {
            let _ended = watcher.join();
        }
    }
}

/// Memory of this process that no file backs; 0 where the system does not tell.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Bytes of the blocks that files in and below `folder` take. Files that go meanwhile count for nothing.
fn blocks(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => blocks(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let meter = MemoryMeter::start(Some(folder.path()));
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 1 << 20]).unwrap();
        assert!(meter.take_peak() >= 1 << 20);
    }

    #[test]
    fn memory_is_seen() {
        // Other tests take and free memory beside this one: far less than this.
        let before = anonymous_bytes();
        // What is not looked at need not be there.
        let held = std::hint::black_box(vec![1_u8; 256 << 20]);
        let now = anonymous_bytes();
        assert!(now >= before + held.len() as u64 / 2, "{before} {now}");
        drop(std::hint::black_box(held));
    }
}
