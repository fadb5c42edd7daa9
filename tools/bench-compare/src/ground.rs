//! The disk that stores lie on: whether it is one, and how its files leave the system's cache.

use std::cell::Cell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise, statfs, syncfs};

use crate::engines::Result;

/// File systems that are memory, by the number that `statfs` gives, and their names.
const MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// What a disk is given to forget files that went.
const REST: Duration = Duration::from_millis(200);

/// Refuses a folder in memory: a sync there makes nothing durable, and costs nothing.
///
/// # Errors
/// It is in memory, or cannot be asked.
pub fn check(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let stat = statfs(folder).map_err(|error| format!("--disk={shown}: {error}"))?;
    match MEMORY.iter().find(|(kind, _)| *kind == stat.f_type as u64) {
        None => Ok(()),
        Some((_, name)) => Err(format!(
            "--disk={shown} is {name}, which is memory: a sync there keeps nothing. Name a folder on a disk with --disk=DIR, \
             or run only what needs none with --group=tmpfs"
        )),
    }
}

/// Waits until what others left to write to the disk of `folder` is written, such as what the last store's files were.
pub fn settle(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| Ok(syncfs(folder)?));
    synced.map_err(|error| format!("--disk={}: {error}", folder.display()))?;
    std::thread::sleep(REST);
    Ok(())
}

/// Drops the files in and below `folder` from the system's cache, once they are synced. Any user may, unlike with
/// `/proc/sys/vm/drop_caches`; a page that some process has mapped stays.
pub fn chill(folder: &Path) -> Result<()> {
    each_file(folder, &|file| {
        file.sync_all()?;
        Ok(fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

/// Syncs the files in and below `folder`: what was put before a benchmark is not written in it, and a page that is changed
/// in it counts as written.
pub fn sync(folder: &Path) -> Result<()> {
    each_file(folder, &|file| file.sync_all())
}

/// Hands the files in and below `folder` on; those that go meanwhile are not missed.
fn each_file(folder: &Path, each: &dyn Fn(&File) -> std::io::Result<()>) -> Result<()> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let entry = entry.map_err(told)?;
        let done = match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                each_file(&entry.path(), each)?;
                Ok(())
            }
            Ok(kind) if kind.is_file() => File::open(entry.path()).and_then(|file| each(&file)),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(told(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Bytes that the files under `folder` take on their device.
///
/// # Errors
/// They cannot be asked.
pub fn taken(folder: &Path) -> Result<u64> {
    let bytes = Cell::new(0);
    each_file(folder, &|file| {
        bytes.set(bytes.get() + file.metadata()?.blocks() * 512);
        Ok(())
    })?;
    Ok(bytes.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::bytes::ProcessBytes;

    #[test]
    fn memory_is_no_disk() {
        let memory = Path::new(bench::scratch::MEMORY);
        if statfs(memory).is_ok_and(|stat| stat.f_type as u64 == MEMORY[0].0) {
            let error = check(memory).unwrap_err();
            assert!(error.contains("tmpfs") && error.contains("--disk=DIR"), "{error}");
        }
        assert!(check(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn files_that_left_the_cache_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let bytes = vec![7; 8 << 20];
        std::fs::write(&path, &bytes).unwrap();
        chill(folder.path()).unwrap();
        let before = ProcessBytes::now();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let read = ProcessBytes::now().since(before).read;
        // In memory there is nothing to read from.
        if check(folder.path()).is_ok() {
            assert!(read >= bytes.len() as u64, "{read}");
        }
    }
}
