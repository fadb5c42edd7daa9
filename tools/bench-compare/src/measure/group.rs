//! A control group (cgroup) of memory for each store: the system itself then tells the most that was taken, pages of
//! files included, and a limit on the group above holds all engines to the same. Only in a folder that the user names.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::engines::Result;

/// Files that tell the most memory that a group had: version 2's and version 1's.
const PEAKS: [&str; 2] = ["memory.peak", "memory.max_usage_in_bytes"];

/// A group that is gone when this is dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Makes a group in the group `parent`.
    ///
    /// # Errors
    /// It cannot be made, or is no group of memory.
    pub fn within(parent: &Path, name: &str) -> Result<MemoryGroup> {
        let folder = parent.join(name);
        let shown = folder.display();
        std::fs::create_dir(&folder).map_err(|error| {
            format!(
                "--cgroup: making {shown}: {error}; name a cgroup in which this user may make others"
            )
        })?;
        let group = MemoryGroup { folder };
        match PEAKS.iter().any(|file| group.folder.join(file).exists()) {
            true => Ok(group),
            false => Err(format!(
                "--cgroup: {} has no {} and no {}; name a cgroup of memory",
                group.folder.display(),
                PEAKS[0],
                PEAKS[1]
            )),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its process has ended. What a crash leaves is empty and harmless.
        let _gone = std::fs::remove_dir(&self.folder);
    }
}

/// Moves this process into the group `folder`.
pub fn join(folder: &Path) -> Result<()> {
    let file = folder.join("cgroup.procs");
    std::fs::write(&file, std::process::id().to_string())
        .map_err(|error| format!("--cgroup: {}: {error}", file.display()))
}

/// The most memory that a group had since it was asked to begin anew.
#[derive(Debug)]
pub struct Peak {
    /// Stays open: version 2 keeps a peak for each opening of its file.
    file: Option<File>,
    /// Whether the system began anew.
    is_reset: bool,
}

impl Peak {
    /// Of the group `folder`.
    pub fn of(folder: &Path) -> Peak {
        let open =
            |name: &&str| OpenOptions::new().read(true).write(true).open(folder.join(name)).ok();
        Peak { file: PEAKS.iter().find_map(open), is_reset: false }
    }

    /// Begins anew. Older systems do not; then nothing is told, because the peak might be of another benchmark.
    pub fn reset(&mut self) {
        let zero = |file: &File| file.write_all_at(b"0", 0);
        self.is_reset = self.file.as_ref().is_some_and(|file| zero(file).is_ok());
    }

    /// The most since then.
    pub fn bytes(&mut self) -> Option<u64> {
        let file = self.file.as_mut().filter(|_| self.is_reset)?;
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_their_peak_once_it_is_reset() {
        for name in PEAKS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, "12345\n").unwrap();
            let mut peak = Peak::of(folder.path());
            assert_eq!(peak.bytes(), None);
            peak.reset();
            std::fs::write(&path, "678\n").unwrap();
            assert_eq!(peak.bytes(), Some(678));
        }
        let nowhere = tempfile::tempdir().unwrap();
        let mut peak = Peak::of(nowhere.path());
        peak.reset();
        assert_eq!(peak.bytes(), None);
    }

    #[test]
    fn a_folder_that_is_no_group_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = MemoryGroup::within(folder.path(), "one").unwrap_err();
        assert!(error.contains("name a cgroup of memory"), "{error}");
        assert!(!folder.path().join("one").exists());
        let error = MemoryGroup::within(&folder.path().join("none"), "one").unwrap_err();
        assert!(error.contains("may make others"), "{error}");
    }
}
