//! The lock that keeps a second writer out, and who holds it.
//!
//! `flock` belongs to the open file description: it goes when the process dies however it dies, and a
//! second open in the same process is refused like one in another.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use base::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Stat, flock};
use rustix::io::Errno;

use super::OpenMode;

/// How often, and how long each time, a lock is waited for whose holder cannot be told, or has closed the file: a
/// process that is being forked holds the descriptors of its parent until it runs its own program.
const PATIENCE: u32 = 50;
/// The same of a writer where other processes read. One that looks at a store has it open for a moment.
const PATIENCE_WITH_READERS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(2);

/// Takes the lock of `file`, exclusive for a writer and shared for a reader. Writers that can be named are not waited for, nor
/// are readers for long.
pub(super) fn acquire(
    operation: &'static str,
    path: &Path,
    file: BorrowedFd<'_>,
    stat: &Stat,
    mode: OpenMode,
) -> Result<()> {
    let kind = match mode {
        OpenMode::ReadWrite => FlockOperation::NonBlockingLockExclusive,
        OpenMode::ReadOnly => FlockOperation::NonBlockingLockShared,
    };
    let mut waited = 0;
    loop {
        match flock(file, kind) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) if errno == Errno::WOULDBLOCK => {
                let holders = find_holders(stat);
                let own = |holder: &Holder| holder.pid == std::process::id();
                let reads = |holder: &Holder| !holder.exclusive && !own(holder);
                let patience = if holders.iter().all(own) && !is_open_elsewhere(file, stat) {
                    PATIENCE
                } else if mode == OpenMode::ReadWrite
                    && !holders.is_empty()
                    && holders.iter().all(reads)
                {
                    PATIENCE_WITH_READERS
                } else {
                    0
                };
                if waited >= patience {
                    return Err(busy(operation, path, mode, &holders));
                }
                waited += 1;
                std::thread::sleep(PAUSE);
            }
            Err(errno) => {
                let context = format!(
                    "{} cannot be locked; keep pools on a file system that has flock",
                    path.display()
                );
                return Err(Error::io(operation, context, errno));
            }
        }
    }
}

/// Gives the lock back before the file is closed.
pub(super) fn release(file: BorrowedFd<'_>) {
    // What cannot be given back goes with the file.
    let _sooner = flock(file, FlockOperation::Unlock);
}

/// Whether this process has the file open by another descriptor than `file`.
fn is_open_elsewhere(file: BorrowedFd<'_>, stat: &Stat) -> bool {
    let this = file.as_raw_fd().to_string();
    let is_same = |entry: std::fs::DirEntry| {
        let there = std::fs::metadata(entry.path());
        entry.file_name() != this[..]
            && there.is_ok_and(|there| (there.dev(), there.ino()) == (stat.st_dev, stat.st_ino))
    };
    std::fs::read_dir("/proc/self/fd").is_ok_and(|all| all.flatten().any(is_same))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    exclusive: bool,
}

/// Looks for the holders of a lock that is held: the kernel tells its list in parts, and misses some while others come and go.
const LOOKS: usize = 5;

/// Who holds the file's lock, as far as can be seen.
fn find_holders(stat: &Stat) -> Vec<Holder> {
    let look = |_| {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        holders(&locks, stat.st_dev, stat.st_ino)
    };
    (0..LOOKS).map(look).find(|holders| !holders.is_empty()).unwrap_or_default()
}

/// Who holds the file's lock, from the text of `/proc/locks`. A lock taken in a pid namespace that is not
/// visible here has no usable pid and is left out.
///
/// ```text
/// 1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF      held
/// 1: -> FLOCK  ADVISORY  WRITE 1235 fd:01:5678 0 EOF   waiting
/// ```
fn holders(locks: &str, device: u64, inode: u64) -> Vec<Holder> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let held = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, _advisory, access) = (words.next()?, words.next()?, words.next()?);
        let (pid, on) = (words.next()?.parse().ok()?, words.next()?);
        (kind == "FLOCK" && on == file && pid > 0)
            .then_some(Holder { pid, exclusive: access == "WRITE" })
    };
    locks.lines().filter_map(held).collect()
}

fn busy(operation: &'static str, path: &Path, mode: OpenMode, holders: &[Holder]) -> Error {
    let own = std::process::id();
    let name = |holder: &Holder| {
        if holder.pid == own {
            return format!("this process (pid {own})");
        }
        let command = std::fs::read_to_string(format!("/proc/{}/comm", holder.pid));
        match command {
            Ok(command) => format!("pid {} ({})", holder.pid, command.trim_end()),
            Err(_) => format!("pid {}", holder.pid),
        }
    };
    let who = match holders {
        [] => "another handle, whose pid is not visible".into(),
        _ => {
            // A process may hold it by several handles.
            let mut names: Vec<String> = holders.iter().map(name).collect();
            names.sort();
            names.dedup();
            names.join(", ")
        }
    };
    let written = holders.iter().any(|holder| holder.exclusive);
    let remedy = match mode {
        OpenMode::ReadWrite if !written && !holders.is_empty() => {
            "it is open for reading: close it there, or open it read-only here"
        }
        OpenMode::ReadWrite | OpenMode::ReadOnly => "close it there, then try again",
    };
    Error::new(ErrorKind::Busy, operation, format!("{} is held by {who}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn holders_are_found_by_device_and_inode() {
        let locks = "\
            1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 99 fd:01:5678 0 EOF\n\
            2: FLOCK  ADVISORY  READ 7 00:1a:42 0 EOF\n\
            3: FLOCK  ADVISORY  READ 8 00:1a:42 0 EOF\n\
            4: POSIX  ADVISORY  WRITE 11 fd:01:5678 0 EOF\n\
            5: OFDLCK ADVISORY  WRITE -1 fd:01:5678 0 EOF\n\
            6: FLOCK  ADVISORY  WRITE 0 fd:01:1 0 EOF\n\
            garbage\n";
        let on = |major, minor, inode| holders(locks, rustix::fs::makedev(major, minor), inode);
        assert_eq!(on(0xfd, 1, 5678), [Holder { pid: 1234, exclusive: true }]);
        let readers = [7, 8].map(|pid| Holder { pid, exclusive: false });
        assert_eq!(on(0, 0x1a, 42), readers);
        assert_eq!(on(0xfd, 1, 1), [], "no visible pid");
        assert_eq!(on(0xfd, 1, 2), []);
    }

    #[test]
    fn refusal_names_holder_and_remedy() {
        let path = Path::new("/p");
        let text = |mode, holders: &[Holder]| busy("open", path, mode, holders).to_string();
        let reader = Holder { pid: std::process::id(), exclusive: false };
        assert_eq!(
            text(OpenMode::ReadWrite, &[reader, reader]),
            text(OpenMode::ReadWrite, &[reader])
        );
        assert_eq!(
            text(OpenMode::ReadWrite, &[reader]),
            format!(
                "Busy: open: /p is held by this process (pid {}); it is open for reading: close it \
                 there, or open it read-only here",
                reader.pid
            )
        );
        assert_eq!(
            text(OpenMode::ReadOnly, &[]),
            "Busy: open: /p is held by another handle, whose pid is not visible; close it there, then \
             try again"
        );
    }

    /// A child that is being started has the descriptors of this process for a moment: no open is refused for it.
    #[test]
    fn a_child_on_its_way_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = std::fs::File::create(&path).expect("file");
        let take = |file: &std::fs::File| {
            let stat = rustix::fs::fstat(file).expect("stat");
            acquire("open", &path, file.as_fd(), &stat, OpenMode::ReadWrite)
        };
        take(&file).expect("free");
        let again = std::fs::File::open(&path).expect("file");
        assert_eq!(take(&again).expect_err("held").kind(), ErrorKind::Busy);
        let copy = file.try_clone().expect("duplicate");
        let child = std::process::Command::new("sleep").arg("0.03").stdin(copy).spawn();
        drop(file);
        take(&again).expect("free soon");
        child.expect("started").wait().expect("ended");
    }
}
