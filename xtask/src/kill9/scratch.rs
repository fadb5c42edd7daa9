//! A folder that is gone afterwards: dropped with its guard, and, should this process itself be killed,
//! removed by a child process whose only duty that is.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How folders begin, and what a janitor is willing to remove.
pub const PREFIX: &str = "strandline-kill9-";
/// The subcommand of a janitor.
pub const JANITOR: &str = "kill9-janitor";

pub struct Scratch {
    // Declared first: the janitor looks once more after the folder is gone.
    dir: TempDir,
    _janitor: Janitor,
}

struct Janitor(Child);

impl Scratch {
    /// Makes a folder in `parent`.
    pub fn new(parent: &Path) -> Result<Scratch, String> {
        let failed = |error: std::io::Error| {
            format!("a folder in {}: {error}; give --dir", parent.display())
        };
        let program = std::env::current_exe().map_err(failed)?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).map_err(failed)?;
        // Outside the process group that Ctrl-C reaches.
        let hired = Command::new(program)
            .arg(JANITOR)
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Ok(Scratch { dir, _janitor: Janitor(hired.map_err(failed)?) })
    }

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

/// The janitor: waits until its parent is gone, then removes the folder.
pub fn janitor(args: &[String]) -> Result<(), String> {
    let path = Path::new(args.first().ok_or("kill9-janitor is started by kill9")?);
    if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
        return Err(format!("{}: not a folder of kill9", path.display()));
    }
    let mut nothing = Vec::new();
    let _ended = std::io::stdin().read_to_end(&mut nothing);
    // A child of the same parent may be about to make its store; it ends when it wants to tell that.
    for _ in 0..20 {
        let gone = !path.exists();
        let _again = std::fs::remove_dir_all(path);
        if gone {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{} cannot be removed", path.display()))
}
