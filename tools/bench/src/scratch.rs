//! A folder for one run that is gone afterwards.
//!
//! It is removed when its guard is dropped, so also after an error or a panic. Against Ctrl-C and kill -9 a
//! child process stands by, whose only duty is to remove the folder once this process is gone.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// How folders begin, and what a janitor is willing to remove.
const PREFIX: &str = "strandline-bench-";
/// Where memory is to be had as files.
pub const MEMORY: &str = "/dev/shm";

/// A folder that lives as long as this value.
pub struct Scratch {
    // Declared first: the janitor looks once more after the folder is gone.
    dir: TempDir,
    _janitor: Option<Janitor>,
}

/// The child process that removes the folder when this one is gone.
struct Janitor(Child);

impl Scratch {
    /// Makes a folder in the first of `parents` that has room for `wanted` bytes.
    ///
    /// # Errors
    /// There is too little room, or no folder can be made; in words.
    pub fn within(parents: &[PathBuf], wanted: u64) -> Result<Scratch, String> {
        let name = format!("{PREFIX}{}-", std::process::id());
        let mut failure = String::new();
        for parent in parents {
            let free = free_bytes(parent);
            // Never all of it: other processes need some, above all in memory.
            if free / 4 * 3 < wanted {
                failure = format!(
                    "{} MiB would leave too little of the {} MiB free in {}",
                    wanted >> 20,
                    free >> 20,
                    parent.display()
                );
                continue;
            }
            match tempfile::Builder::new().prefix(&name).tempdir_in(parent) {
                Ok(dir) => return Ok(Scratch { _janitor: hire(dir.path()), dir }),
                Err(error) => failure = format!("a folder in {}: {error}", parent.display()),
            }
        }
        Err(failure)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // Its standard input ends, so it looks once more and goes.
        drop(self.0.stdin.take());
        let _gone = self.0.wait();
    }
}

/// Starts the janitor of `path`, outside the process group that Ctrl-C reaches. Best effort.
fn hire(path: &Path) -> Option<Janitor> {
    let program = std::env::current_exe().ok()?;
    Command::new(program)
        .args(["bench", "--child-janitor"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()
        .map(Janitor)
}

/// The janitor: waits until its parent is gone, then removes the folder.
pub(crate) fn janitor(path: &str) -> Result<i32, String> {
    let path = Path::new(path);
    let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if !ours {
        return Err(format!("{}: not a folder of a benchmark", path.display()));
    }
    let mut nothing = Vec::new();
    let _ended = std::io::stdin().read_to_end(&mut nothing);
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("removing {}: {error}", path.display()))
        }
        _ => Ok(0),
    }
}

/// Bytes free in the file system where `path` is or would be; all there can be if it does not tell.
pub fn free_bytes(path: &Path) -> u64 {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(there).map_or(u64::MAX, |stat| stat.f_bavail * stat.f_frsize)
}
