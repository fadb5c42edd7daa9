//! The Unix socket in a store's directory, by which another process looks at a store that is open.
//!
//! Paths of sockets are limited to 107 bytes, so the socket is bound and reached through a descriptor of the directory. Only
//! the process that holds the store's lock makes and removes the file. One that refuses connections was left by a process
//! that died; the next open takes its place.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Error, ErrorKind, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};
use rustix::process::geteuid;

/// The name of the socket in the store's directory.
pub(crate) const SOCKET: &str = "inspect.sock";
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 8;

/// The socket of an open store, if it has one.
#[derive(Default)]
pub(crate) struct Window {
    state: Mutex<WindowState>,
}

#[derive(Default)]
enum WindowState {
    /// The store was opened without, or is closed.
    #[default]
    Shut,
    Open(BoundName),
    /// It could not be made.
    Failed(String),
}

/// A name in a directory that leads to a socket of this process.
struct BoundName {
    path: PathBuf,
    dir: OwnedFd,
    /// Device and inode, so that no other file is removed in its place.
    identity: (u64, u64),
    stop: Arc<OwnedFd>,
}

/// The end that accepts connections.
pub(crate) struct Listening {
    socket: OwnedFd,
    stop: Arc<OwnedFd>,
}

impl Window {
    /// Makes the socket in `dir`. The caller holds the lock of the store there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(&self, dir: &Path) -> Result<Listening> {
        let (name, listening) = bound_in(dir)?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = WindowState::Open(name);
        Ok(listening)
    }

    /// Notes that the store cannot be looked at, and why.
    pub(crate) fn fail(&self, why: String) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = WindowState::Failed(why);
    }

    /// Removes the socket and ends [`Listening::is_stopped`]. The caller still holds the lock of the store.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let WindowState::Open(name) = std::mem::take(&mut *state) {
            name.remove();
        }
    }

    /// Where the socket is.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            WindowState::Open(name) => Some(name.path.clone()),
            WindowState::Shut | WindowState::Failed(_) => None,
        }
    }

    /// Why there is none, though one was asked for.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            WindowState::Failed(why) => Some(why.clone()),
            WindowState::Shut | WindowState::Open(_) => None,
        }
    }
}

impl BoundName {
    fn remove(self) {
        let found = statat(&self.dir, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.identity) {
            // One that stays refuses connections, and the next open takes its place.
            let _left = unlinkat(&self.dir, SOCKET, AtFlags::empty());
        }
        // Any number but 0 and the highest raises the event.
        let _raised = rustix::io::write(&*self.stop, &1_u64.to_le_bytes());
    }
}

impl Listening {
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Readable once the socket was removed.
    pub(crate) fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Whether the socket was removed.
    pub(crate) fn is_stopped(&self) -> bool {
        let mut count = [0; 8];
        rustix::io::read(&*self.stop, &mut count).is_ok()
    }

    /// The next connection, if there is one: of the same user, or of root. Others are closed.
    ///
    /// # Errors
    /// Those of the system, for want of descriptors say. The connection then waits, so that the socket stays readable.
    pub(crate) fn accept(&self) -> rustix::io::Result<Option<OwnedFd>> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let peer = match accept_with(&self.socket, flags) {
                Ok(peer) => peer,
                Err(Errno::AGAIN) => return Ok(None),
                // Another may be behind one that has left.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return Err(errno),
            };
            let uid = sockopt::socket_peercred(&peer).map(|credentials| credentials.uid);
            if uid.is_ok_and(|uid| uid == geteuid() || uid.is_root()) {
                return Ok(Some(peer));
            }
        }
    }
}

/// Connects to the socket of the store in `dir`.
///
/// # Errors
/// `NotFound` if there is none, or none that answers; those of the system.
pub(crate) fn reach(dir: &Path) -> Result<OwnedFd> {
    let none = |what: &str| {
        let text = format!(
            "{} {what}; open the store with the option inspect there, then try again",
            dir.join(SOCKET).display()
        );
        Error::new(ErrorKind::NotFound, "inspect", text)
    };
    let directory = directory(dir).map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => none("is not there"),
        errno => failed(dir, "reach", errno),
    })?;
    let address = address(&directory).map_err(|errno| failed(dir, "reach", errno))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(dir, "reach", errno))?;
    match connect(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::NOENT) => Err(none("is not there")),
        Err(Errno::CONNREFUSED) => Err(none("was left by a process that has ended")),
        Err(errno) => Err(failed(dir, "reach", errno)),
    }
}

fn bound_in(dir: &Path) -> Result<(BoundName, Listening)> {
    let failed = |errno| failed(dir, "make", errno);
    let directory = directory(dir).map_err(failed)?;
    remove_stale(&directory, dir)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(failed)?;
    // The file gets the mode of the socket, so that at no moment others may connect.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    bind(&socket, &address(&directory).map_err(failed)?).map_err(failed)?;
    listen(&socket, BACKLOG).map_err(failed)?;
    let found = statat(&directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
    let stop = Arc::new(stop);
    let name = BoundName {
        path: dir.join(SOCKET),
        dir: directory,
        identity: (found.st_dev, found.st_ino),
        stop: Arc::clone(&stop),
    };
    Ok((name, Listening { socket, stop }))
}

/// Removes the socket of a process that held the lock before and died. Another kind of file is not ours.
fn remove_stale(directory: &OwnedFd, dir: &Path) -> Result<()> {
    let found = match statat(directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|errno| failed(dir, "make", errno))?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        let text = format!("{} is no socket; move it away", dir.join(SOCKET).display());
        return Err(Error::new(ErrorKind::Exists, "inspect", text));
    }
    unlinkat(directory, SOCKET, AtFlags::empty()).map_err(|errno| failed(dir, "make", errno))
}

fn directory(dir: &Path) -> rustix::io::Result<OwnedFd> {
    openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The socket's address by way of the descriptor of its directory.
fn address(directory: &OwnedFd) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

fn failed(dir: &Path, what: &str, errno: Errno) -> Error {
    let text = format!(
        "cannot {what} the socket {}; the store works without it",
        dir.join(SOCKET).display()
    );
    Error::io("inspect", text, errno)
}
